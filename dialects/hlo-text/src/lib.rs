//! hlo-text
