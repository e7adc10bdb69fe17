//! The text of launch plans: a line for each step, those nested in another between braces.

use std::fmt;

use super::{Boxes, Buffer, CountedRound, HostArgument, HostCall, Launch, LaunchArgument, PlanStep, Round, Slice};

type Result<T> = std::result::Result<T, String>;

/// Plans nested in one another.
const DEPTH_LIMIT: usize = 128;

/// Writes steps, indented.
pub(super) fn write_steps(f: &mut fmt::Formatter<'_>, steps: &[PlanStep], depth: usize) -> fmt::Result {
    let indent = "  ".repeat(depth);
    for step in steps {
        match step {
            PlanStep::Launch(Launch { kernel, blocks, threads, shared, arguments, of }) => {
                let shared = if *shared > 0 { format!(", {shared}") } else { String::new() };
                let (kernel, arguments) = (escaped(kernel), list(arguments));
                let of: Vec<String> = of.iter().map(|name| escaped(name)).collect();
                let of = if of.is_empty() { String::new() } else { format!(" of [{}]", of.join(", ")) };
                writeln!(f, "{indent}launch {kernel} <<<{blocks}, {threads}{shared}>>> ({arguments}){of}")?;
            }
            PlanStep::Copy { from, to } => writeln!(f, "{indent}copy {from} -> {to}")?,
            PlanStep::While(rounds) => {
                writeln!(f, "{indent}while {{")?;
                for Round { condition, predicate, body, leave } in rounds {
                    write_block(f, "condition", condition, depth + 1)?;
                    write_block(f, &format!("body if {predicate}"), body, depth + 1)?;
                    write_leave(f, leave, depth + 1)?;
                }
                writeln!(f, "{indent}}}")?;
            }
            PlanStep::Repeat { times, rounds } => {
                writeln!(f, "{indent}repeat {times} {{")?;
                for CountedRound { body, leave } in rounds {
                    write_block(f, "body", body, depth + 1)?;
                    write_leave(f, leave, depth + 1)?;
                }
                writeln!(f, "{indent}}}")?;
            }
            PlanStep::Switch { selector, branches } => {
                writeln!(f, "{indent}switch {selector} {{")?;
                branches.iter().try_for_each(|branch| write_block(f, "branch", branch, depth + 1))?;
                writeln!(f, "{indent}}}")?;
            }
            PlanStep::HostCall(HostCall { symbol, descriptor, arguments, operands, results }) => {
                let (arguments, operands, results) = (list(arguments), list(operands), list(results));
                let descriptor = list(descriptor);
                writeln!(
                    f,
                    "{indent}host call {} [{descriptor}] ({arguments}) [{operands}] -> [{results}]",
                    escaped(symbol)
                )?;
            }
        }
    }
    Ok(())
}

fn write_block(f: &mut fmt::Formatter<'_>, head: &str, steps: &[PlanStep], depth: usize) -> fmt::Result {
    let indent = "  ".repeat(depth);
    writeln!(f, "{indent}{head} {{")?;
    write_steps(f, steps, depth + 1)?;
    writeln!(f, "{indent}}}")
}

/// What is done where a loop ends, if anything is.
fn write_leave(f: &mut fmt::Formatter<'_>, steps: &[PlanStep], depth: usize) -> fmt::Result {
    if steps.is_empty() { Ok(()) } else { write_block(f, "else", steps, depth) }
}

fn list<T: fmt::Display>(values: &[T]) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for LaunchArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LaunchArgument::Array(slice) => slice.fmt(f),
            LaunchArgument::Written(slice) => write!(f, "to {slice}"),
            LaunchArgument::Number(number) => number.fmt(f),
            LaunchArgument::Boxes(slice, Boxes { width, sizes, strides, sides }) => {
                let (sizes, strides, sides) = (list(sizes), list(strides), list(sides));
                write!(f, "boxes {slice} {width} [{sizes}] [{strides}] [{sides}]")
            }
        }
    }
}

impl fmt::Display for HostArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostArgument::Operand(number) => write!(f, "operand {number}"),
            HostArgument::Result(number) => write!(f, "result {number}"),
            HostArgument::Operands => write!(f, "operands"),
            HostArgument::Results => write!(f, "results"),
            HostArgument::Nothing => write!(f, "nothing"),
            HostArgument::Text(text) => write!(f, "text '{}'", escaped(text)),
        }
    }
}

/// A text as one word: other bytes than those of names are `%` and two hexadecimal digits.
fn escaped(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") })
        .collect()
}

fn unescaped(word: &str) -> Result<String> {
    let mut parts = word.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).ok_or_else(|| format!("`{word}` ends too early"))?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|error| format!("`{word}`: {error}"))?);
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8(bytes).map_err(|error| format!("`{word}`: {error}"))
}

/// Reads all steps of a text.
pub(super) fn read_steps(text: &str) -> Result<Vec<PlanStep>> {
    let mut lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty());
    let (steps, end) = steps(&mut lines, DEPTH_LIMIT)?;
    match end {
        None => Ok(steps),
        Some(number) => Err(format!("line {}: a brace that nothing opened", number + 1)),
    }
}

/// Steps up to a closing brace, whose line is returned too, counted from 0.
fn steps(lines: &mut dyn Iterator<Item = (usize, &str)>, depth: usize) -> Result<(Vec<PlanStep>, Option<usize>)> {
    let mut steps = Vec::new();
    while let Some((number, line)) = lines.next() {
        if line == "}" {
            return Ok((steps, Some(number)));
        }
        let located = |message: String| format!("line {}: {message}", number + 1);
        let nested = depth.checked_sub(1).ok_or_else(|| located("steps nested too deeply".into()))?;
        steps.push(step(&mut Scanner { rest: line }, lines, nested).map_err(located)?);
    }
    Ok((steps, None))
}

fn step<'t>(
    line: &mut Scanner<'t>,
    lines: &mut dyn Iterator<Item = (usize, &'t str)>,
    depth: usize,
) -> Result<PlanStep> {
    let word = line.word();
    let step = match word {
        "launch" => {
            let kernel = unescaped(line.word())?;
            line.expect("<<<")?;
            let blocks = line.number()?;
            line.expect(",")?;
            let threads = line.number()?;
            let shared = match line.starts_with(",") {
                true => {
                    line.expect(",")?;
                    line.number()?
                }
                false => 0,
            };
            line.expect(">>>")?;
            let arguments = line.list("(", ")", |line| {
                if line.starts_with("[") {
                    return Ok(LaunchArgument::Array(line.slice()?));
                }
                if line.starts_with("to") {
                    line.expect("to")?;
                    return Ok(LaunchArgument::Written(line.slice()?));
                }
                if !line.starts_with("boxes") {
                    return Ok(LaunchArgument::Number(line.number()?));
                }
                line.expect("boxes")?;
                let (slice, width) = (line.slice()?, line.number()?);
                let (sizes, strides, sides) = (line.numbers()?, line.numbers()?, line.numbers()?);
                Ok(LaunchArgument::Boxes(slice, Boxes { width, sizes, strides, sides }))
            })?;
            let of = match line.starts_with("of") {
                true => {
                    line.expect("of")?;
                    line.list("[", "]", |line| unescaped(line.word()))?
                }
                false => Vec::new(),
            };
            PlanStep::Launch(Launch { kernel, blocks, threads, shared, arguments, of })
        }
        "copy" => {
            let from = line.slice()?;
            line.expect("->")?;
            PlanStep::Copy { from, to: line.slice()? }
        }
        "while" => {
            line.expect("{")?;
            let mut rounds: Vec<Round> = Vec::new();
            let mut condition = None;
            blocks(lines, depth, &mut |head, steps| {
                match (head.word(), &condition, rounds.last_mut()) {
                    ("condition", None, _) => condition = Some(steps),
                    ("body", Some(_), _) => {
                        head.expect("if")?;
                        let condition = condition.take().unwrap_or_default();
                        rounds.push(Round { condition, predicate: head.slice()?, body: steps, leave: Vec::new() });
                    }
                    ("else", None, Some(round)) if round.leave.is_empty() => round.leave = steps,
                    _ => return Err("a loop has conditions, bodies, and what is done when it is left".into()),
                }
                Ok(())
            })?;
            if condition.is_some() || rounds.is_empty() {
                return Err("a loop without a body".into());
            }
            PlanStep::While(rounds)
        }
        "repeat" => {
            let times = line.number()?;
            line.expect("{")?;
            let mut rounds: Vec<CountedRound> = Vec::new();
            blocks(lines, depth, &mut |head, steps| {
                match (head.word(), rounds.last_mut()) {
                    ("body", _) => rounds.push(CountedRound { body: steps, leave: Vec::new() }),
                    ("else", Some(round)) if round.leave.is_empty() => round.leave = steps,
                    _ => return Err("a counted loop has bodies, and what is done when it ends".into()),
                }
                Ok(())
            })?;
            if rounds.is_empty() {
                return Err("a loop without a body".into());
            }
            PlanStep::Repeat { times, rounds }
        }
        "switch" => {
            let selector = line.slice()?;
            line.expect("{")?;
            let mut branches = Vec::new();
            blocks(lines, depth, &mut |head, steps| {
                head.expect("branch")?;
                branches.push(steps);
                Ok(())
            })?;
            PlanStep::Switch { selector, branches }
        }
        "host" => {
            line.expect("call")?;
            let symbol = unescaped(line.word())?;
            let descriptor = line.list("[", "]", Scanner::number)?;
            let arguments = line.list("(", ")", host_argument)?;
            let operands = line.list("[", "]", Scanner::slice)?;
            line.expect("->")?;
            let results = line.list("[", "]", Scanner::slice)?;
            PlanStep::HostCall(HostCall { symbol, descriptor, arguments, operands, results })
        }
        other => return Err(format!("`{other}` is no step")),
    };
    line.end()?;
    Ok(step)
}

fn host_argument(line: &mut Scanner<'_>) -> Result<HostArgument> {
    Ok(match line.word() {
        "operand" => HostArgument::Operand(line.number()?),
        "result" => HostArgument::Result(line.number()?),
        "operands" => HostArgument::Operands,
        "results" => HostArgument::Results,
        "nothing" => HostArgument::Nothing,
        "text" => {
            line.expect("'")?;
            let word = if line.starts_with("'") { "" } else { line.word() };
            line.expect("'")?;
            HostArgument::Text(unescaped(word)?)
        }
        other => return Err(format!("`{other}` is no argument of a call")),
    })
}

/// The blocks up to a closing brace: of each its head and its steps.
fn blocks<'t>(
    lines: &mut dyn Iterator<Item = (usize, &'t str)>,
    depth: usize,
    block: &mut dyn FnMut(&mut Scanner<'t>, Vec<PlanStep>) -> Result<()>,
) -> Result<()> {
    loop {
        let (_, line) = lines.next().ok_or("a brace is not closed")?;
        if line == "}" {
            return Ok(());
        }
        let head = line.strip_suffix('{').ok_or_else(|| format!("`{line}` opens no block"))?;
        let (steps, end) = steps(lines, depth)?;
        end.ok_or("a brace is not closed")?;
        let mut head = Scanner { rest: head };
        block(&mut head, steps)?;
        head.end()?;
    }
}

/// What is left of a line.
struct Scanner<'t> {
    rest: &'t str,
}

impl<'t> Scanner<'t> {
    fn starts_with(&mut self, text: &str) -> bool {
        self.rest = self.rest.trim_start();
        self.rest.starts_with(text)
    }

    fn expect(&mut self, text: &str) -> Result<()> {
        self.rest = self.rest.trim_start();
        self.rest =
            self.rest.strip_prefix(text).ok_or_else(|| format!("`{text}` is missing before `{}`", self.rest))?;
        Ok(())
    }

    fn end(&self) -> Result<()> {
        if self.rest.trim().is_empty() { Ok(()) } else { Err(format!("unexpected `{}`", self.rest)) }
    }

    /// The characters of a name, a number or an escaped text.
    fn word(&mut self) -> &'t str {
        self.rest = self.rest.trim_start();
        let is_part = |c: char| c.is_ascii_alphanumeric() || "._-%".contains(c);
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn number<T: std::str::FromStr>(&mut self) -> Result<T> {
        let word = self.word();
        word.parse().map_err(|_| format!("`{word}` is not such a number"))
    }

    /// So many numbers between brackets.
    fn numbers<const COUNT: usize>(&mut self) -> Result<[u64; COUNT]> {
        let found = self.list("[", "]", Self::number)?;
        found.try_into().map_err(|found: Vec<u64>| format!("{} numbers instead of {COUNT}", found.len()))
    }

    fn slice(&mut self) -> Result<Slice> {
        self.expect("[")?;
        let buffer = match self.word() {
            "arena" => Buffer::Arena,
            "parameter" => Buffer::Parameter(self.number()?),
            "constant" => Buffer::Constant(self.number()?),
            "output" => Buffer::Output(self.number()?),
            other => return Err(format!("`{other}` is no buffer")),
        };
        self.expect(",")?;
        let offset = self.number()?;
        self.expect(":")?;
        let size = self.number()?;
        self.expect("]")?;
        Ok(Slice { buffer, offset, size })
    }

    fn list<T>(&mut self, open: &str, close: &str, item: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect(open)?;
        let mut items = Vec::new();
        while !self.starts_with(close) {
            if !items.is_empty() {
                self.expect(",")?;
            }
            items.push(item(self)?);
        }
        self.expect(close)?;
        Ok(items)
    }
}
