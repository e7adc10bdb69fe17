//! Texts with a few tokens or lines changed.

use fastrand::Rng;
use hlo::element_type::ElementType;
use hlo::op_kind::OpKind;
use hlo::ops::definition;

/// Most changes of one mutant.
const MOST_CHANGES: usize = 3;

/// Numbers at which sizes, positions and counts go wrong.
const NUMBERS: [&str; 14] =
    ["0", "1", "2", "3", "4", "7", "64", "-1", "-2", "1000", "65536", "2147483648", "9223372036854775807", "1.5"];

const SMALL_NUMBERS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "8", "16", "33"];

const PUNCTUATION: [&str; 14] = ["{", "}", "(", ")", "[", "]", ",", "=", "%", "\"", ":", "<=", "->", "x"];

/// The mutant of a seed.
pub fn mutant(seed: u64, sources: &[String]) -> String {
    let mut rng = Rng::with_seed(seed);
    let Some(source) = rng.choice(sources) else { return String::new() };
    let mut text = source.clone();
    for _ in 0..rng.usize(1..=MOST_CHANGES) {
        text = match rng.u8(0..10) {
            0..4 => change_everywhere(&text, &mut rng),
            4..9 => change_token(&text, &mut rng),
            _ => change_line(&text, &mut rng),
        };
    }
    text
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    Number,
    Blank,
    Punctuation,
}

fn kind(character: char) -> Kind {
    match character {
        c if c.is_ascii_digit() => Kind::Number,
        c if c.is_alphanumeric() || c == '_' => Kind::Word,
        c if c.is_whitespace() => Kind::Blank,
        _ => Kind::Punctuation,
    }
}

/// Words (which may hold digits, dots and dashes), numbers, blanks and single characters.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match kind(first) {
            Kind::Word => rest.find(|c: char| !(kind(c) == Kind::Word || c.is_ascii_digit() || matches!(c, '-' | '.'))),
            Kind::Number => rest.find(|c: char| !c.is_ascii_digit()),
            Kind::Blank => rest.find(|c: char| !c.is_whitespace()),
            Kind::Punctuation => Some(first.len_utf8()),
        };
        let (token, behind) = rest.split_at(length.unwrap_or(rest.len()));
        tokens.push(token);
        rest = behind;
    }
    tokens
}

fn is_kind(token: &str, wanted: Kind) -> bool {
    token.chars().next().is_some_and(|first| kind(first) == wanted)
}

/// A word of the same sort: an element type for one, an opcode for one, else any word of the text.
fn other_word<'t>(word: &str, words: &[&'t str], rng: &mut Rng) -> &'t str {
    let element_types: Vec<&'static str> = ElementType::all().map(ElementType::name).collect();
    if element_types.contains(&word) {
        return rng.choice(element_types).unwrap_or("f32");
    }
    if word.parse::<OpKind>().is_ok() && rng.bool() {
        return rng.choice(OpKind::ALL).map_or("add", |kind| kind.text_name());
    }
    rng.choice(words).copied().unwrap_or("x")
}

/// Another elementwise operation with as many operands.
fn similar_opcode(opcode: OpKind, rng: &mut Rng) -> &'static str {
    let (class, arity) = (definition(opcode).class, definition(opcode).arity);
    let is_similar = |other: &OpKind| definition(*other).class == class && definition(*other).arity == arity;
    let similar: Vec<OpKind> = OpKind::ALL.iter().copied().filter(is_similar).collect();
    rng.choice(similar).map_or("add", OpKind::text_name)
}

/// A change that often leaves a program: of a size or an element type wherever it stands, or of an opcode to a similar one.
fn change_everywhere(text: &str, rng: &mut Rng) -> String {
    let mut tokens = tokens(text);
    let is_type = |token: &str| token.parse::<ElementType>().is_ok();
    let changeable = |token: &&str| is_kind(token, Kind::Number) || is_type(token) || token.parse::<OpKind>().is_ok();
    let candidates: Vec<&str> = tokens.iter().copied().filter(changeable).collect();
    let Some(&old) = rng.choice(&candidates) else { return text.to_string() };
    let element_types: Vec<&'static str> = ElementType::all().map(ElementType::name).collect();
    let new = match old.parse::<OpKind>() {
        Ok(kind) => similar_opcode(kind, rng),
        Err(_) if is_type(old) => rng.choice(element_types).unwrap_or("f32"),
        Err(_) => rng.choice(SMALL_NUMBERS).unwrap_or("1"),
    };
    tokens.iter_mut().filter(|token| **token == old).for_each(|token| *token = new);
    tokens.concat()
}

fn change_token(text: &str, rng: &mut Rng) -> String {
    let mut tokens = tokens(text);
    let solid: Vec<usize> = (0..tokens.len()).filter(|&place| !is_kind(tokens[place], Kind::Blank)).collect();
    let Some(&place) = rng.choice(&solid) else { return String::new() };
    let other = rng.choice(&solid).copied().unwrap_or(place);
    match rng.u8(0..12) {
        0 => {
            tokens.remove(place);
        }
        1 => tokens.insert(place, tokens[other]),
        2 => tokens.swap(place, other),
        3 => tokens.insert(place, rng.choice(PUNCTUATION).unwrap_or(",")),
        4..=7 => {
            let numbers: Vec<usize> = solid.into_iter().filter(|&place| is_kind(tokens[place], Kind::Number)).collect();
            if let Some(&place) = rng.choice(&numbers) {
                tokens[place] = match rng.bool() {
                    true => rng.choice(NUMBERS).unwrap_or("0"),
                    false => rng.choice(&numbers).map_or("0", |&other| tokens[other]),
                };
            }
        }
        _ => {
            let places: Vec<usize> = solid.into_iter().filter(|&place| is_kind(tokens[place], Kind::Word)).collect();
            let words: Vec<&str> = places.iter().map(|&place| tokens[place]).collect();
            if let Some(&place) = rng.choice(&places) {
                tokens[place] = other_word(tokens[place], &words, rng);
            }
        }
    }
    tokens.concat()
}

fn change_line(text: &str, rng: &mut Rng) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return String::new();
    }
    let (place, other) = (rng.usize(..lines.len()), rng.usize(..lines.len()));
    match rng.u8(0..3) {
        0 => {
            lines.remove(place);
        }
        1 => lines.insert(place, lines[other]),
        _ => lines.swap(place, other),
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_the_whole_text() {
        let text = "ROOT %add.1 = f32[2]{0} dynamic-slice(p0, é), a={1.5}\n";
        assert_eq!(tokens(text).concat(), text);
        assert!(tokens(text).contains(&"dynamic-slice"));
        assert!(tokens(text).contains(&"add.1"));
    }

    #[test]
    fn a_seed_gives_the_same_mutant() {
        let sources = ["a = f32[2] parameter(0)\nb = f32[2] negate(a)".to_string()];
        assert!((0..100).all(|seed| mutant(seed, &sources) == mutant(seed, &sources)));
        assert!((0..100).any(|seed| mutant(seed, &sources) != sources[0]));
    }
}
