//! Indexing maps of programs, from text to maps.

mod both_ways;
mod document;
mod runtime_values;
mod uses;
