//! PTX of kernels that was made in parts.

use std::collections::HashSet;

/// The directive that ends what a text of PTX begins with: its version, its processor and the size of addresses.
const END_OF_HEADER: &str = ".address_size";

/// What declares the memory that is given with a launch: every part that has it declares it.
const GIVEN_MEMORY: &str = ".extern .shared";

/// One text of several for the same target, which define different symbols.
pub(crate) fn joined(parts: &[String]) -> String {
    let Some((first, others)) = parts.split_first() else { return String::new() };
    let mut text = first.clone();
    let mut declared: HashSet<&str> = declarations(first).collect();
    for part in others {
        let lines = part.split_inclusive('\n').skip_while(|line| !line.starts_with(END_OF_HEADER)).skip(1);
        text.extend(lines.filter(|line| !declared.contains(line.trim_end())));
        declared.extend(declarations(part));
    }
    text
}

/// The declarations of a text of memory that is given with a launch.
fn declarations(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim_end).filter(|line| line.starts_with(GIVEN_MEMORY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_share_a_header_and_declarations() {
        let part = |rest: &str| format!("//\n.version 8.0\n.target sm_90\n.address_size 64\n{rest}");
        let shared = ".extern .shared .align 1024 .b8 halo_shared[];\n";
        let parts = [part("a\n"), part(&format!("{shared}b\n")), part(&format!("{shared}c\n"))];
        assert_eq!(joined(&parts), part(&format!("a\n{shared}b\nc\n")));
        assert_eq!(joined(&parts[..1]), parts[0]);
        assert_eq!(joined(&[]), "");
    }
}
