//! Answers one question about indexing maps per run, for comparison with recorded answers.
//!
//! `--op OPERATION --map FILE [--second FILE] [--args FILE]` asks about a map (`maps`);
//! `--hlo FILE --kind KIND --direction DIRECTION --instruction NAME --id NUMBER …` about a program (`programs`).

mod maps;
mod programs;

use std::collections::HashMap;
use std::error::Error;

/// The command line: flags have the value "".
struct Arguments(HashMap<String, String>);

impl Arguments {
    fn get(&self, name: &str) -> Result<&str, Box<dyn Error>> {
        Ok(self.0.get(name).ok_or_else(|| format!("argument --{name} is missing"))?)
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The contents of the file an argument names.
    fn read(&self, name: &str) -> Result<String, Box<dyn Error>> {
        Ok(std::fs::read_to_string(self.get(name)?)?)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = HashMap::new();
    let mut words = std::env::args().skip(1).peekable();
    while let Some(word) = words.next() {
        let name = word.strip_prefix("--").ok_or_else(|| format!("`{word}` is not an argument"))?;
        let value = words.next_if(|next| !next.starts_with("--")).unwrap_or_default();
        arguments.insert(name.to_string(), value);
    }
    let arguments = Arguments(arguments);
    let answer = if arguments.has("hlo") { programs::answer(&arguments)? } else { maps::answer(&arguments)? };
    println!("{answer}");
    Ok(())
}
