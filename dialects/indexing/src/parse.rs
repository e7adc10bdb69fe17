//! Reads the text form of maps and expressions; the inverse of printing.
//!
//! `floordiv` may be written `/` and `mod` `%`. A variable without an entry in the domain is unbounded; a
//! second entry for a variable narrows its bounds. Expressions nest at most [`MAX_DEPTH`] deep.

use std::str::FromStr;
use std::sync::Arc;

use crate::error::Error;
use crate::expr::{Expr, Operator, Var};
use crate::interval::Interval;
use crate::map::{Constraint, IndexingMap, Variable};

/// The deepest expression the parser accepts, so that recursion over a parsed expression is safe.
pub const MAX_DEPTH: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Token<'a> {
    Arrow,
    Number(u64),
    Word(&'a str),
    Symbol(char),
    End,
}

struct Parser<'a> {
    text: &'a str,
    position: usize,
    token: Token<'a>,
    token_start: usize,
    names: Vec<(Arc<str>, Var)>,
    depth: usize,
}

impl FromStr for IndexingMap {
    type Err = Error;

    /// Parses `(d0)[s0]{rt0} -> (…), domain: …` or `KNOWN EMPTY`.
    fn from_str(text: &str) -> Result<IndexingMap, Error> {
        let mut parser = Parser::new(text)?;
        let map = parser.map()?;
        parser.expect_end()?;
        Ok(map)
    }
}

/// Parses an expression over the variables of `map`.
pub fn parse_expr(text: &str, map: &IndexingMap) -> Result<Expr, Error> {
    let mut parser = Parser::new(text)?;
    parser.names = map
        .all_variables()
        .map(|v| {
            let name = map.variable(v).and_then(|v| v.name.clone());
            (name.unwrap_or_else(|| Expr::variable(v).to_string().into()), v)
        })
        .collect();
    let expr = parser.sum()?;
    parser.expect_end()?;
    Ok(expr)
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Parser<'a>, Error> {
        let mut parser = Parser { text, position: 0, token: Token::End, token_start: 0, names: Vec::new(), depth: 0 };
        parser.advance()?;
        Ok(parser)
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T, Error> {
        Err(Error::Parse { offset: self.token_start, message: message.into() })
    }

    fn found(&self) -> String {
        match self.token {
            Token::End => "the end".to_string(),
            Token::Arrow => "`->`".to_string(),
            Token::Number(n) => format!("`{n}`"),
            Token::Word(w) => format!("`{w}`"),
            Token::Symbol(c) => format!("`{c}`"),
        }
    }

    fn advance(&mut self) -> Result<(), Error> {
        let rest = &self.text[self.position..];
        let trimmed = rest.trim_start();
        let start = self.position + (rest.len() - trimmed.len());
        self.token_start = start;
        let length_while = |accept: fn(char) -> bool| trimmed.find(|c| !accept(c)).unwrap_or(trimmed.len());
        let (token, length) = match trimmed.chars().next() {
            None => (Token::End, 0),
            Some('-') if trimmed.starts_with("->") => (Token::Arrow, 2),
            Some(c) if c.is_ascii_digit() => {
                let length = length_while(|c| c.is_ascii_digit());
                match trimmed[..length].parse() {
                    Ok(number) => (Token::Number(number), length),
                    Err(_) => return self.error("number does not fit in 64 bits"),
                }
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let length = length_while(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
                (Token::Word(&trimmed[..length]), length)
            }
            Some(c) => (Token::Symbol(c), c.len_utf8()),
        };
        self.token = token;
        self.position = start + length;
        Ok(())
    }

    fn accept(&mut self, symbol: char) -> Result<bool, Error> {
        let found = self.token == Token::Symbol(symbol);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, symbol: char) -> Result<(), Error> {
        if self.accept(symbol)? {
            return Ok(());
        }
        self.error(format!("expected `{symbol}`, found {}", self.found()))
    }

    fn expect_word(&mut self, word: &str) -> Result<(), Error> {
        if self.token == Token::Word(word) {
            return self.advance();
        }
        self.error(format!("expected `{word}`, found {}", self.found()))
    }

    fn expect_end(&self) -> Result<(), Error> {
        if self.token == Token::End {
            return Ok(());
        }
        self.error(format!("expected the end of the text, found {}", self.found()))
    }

    fn map(&mut self) -> Result<IndexingMap, Error> {
        if self.token == Token::Word("KNOWN") {
            self.advance()?;
            self.expect_word("EMPTY")?;
            let mut map = IndexingMap::from_sizes(&[], &[], Vec::new());
            map.reset_to_known_empty();
            return Ok(map);
        }
        self.expect('(')?;
        let mut dims = self.names(')', Var::Dim)?;
        let mut ranges = if self.accept('[')? { self.names(']', Var::Range)? } else { Vec::new() };
        let mut runtimes = if self.accept('{')? { self.names('}', Var::Runtime)? } else { Vec::new() };
        if self.token != Token::Arrow {
            return self.error(format!("expected `->`, found {}", self.found()));
        }
        self.advance()?;
        self.expect('(')?;
        let mut results = Vec::new();
        while !self.accept(')')? {
            if !results.is_empty() {
                self.expect(',')?;
            }
            results.push(self.sum()?);
        }
        let mut constraints = Vec::new();
        if self.accept(',')? || self.token == Token::Word("domain") {
            self.expect_word("domain")?;
            self.expect(':')?;
            let mut bounded = Vec::new();
            while self.token != Token::End {
                let expr = self.sum()?;
                self.expect_word("in")?;
                let interval = self.interval()?;
                match expr.as_variable() {
                    Some(variable) if !bounded.contains(&variable) => {
                        bounded.push(variable);
                        let (list, i) = match variable {
                            Var::Dim(i) => (&mut dims, i),
                            Var::Range(i) => (&mut ranges, i),
                            Var::Runtime(i) => (&mut runtimes, i),
                        };
                        list[i as usize].bounds = interval;
                    }
                    _ => constraints.push(Constraint { expr, interval }),
                }
                if !self.accept(',')? {
                    break;
                }
            }
        }
        Ok(IndexingMap::new(dims, ranges, runtimes, results, constraints))
    }

    fn names(&mut self, close: char, variable: fn(u32) -> Var) -> Result<Vec<Variable>, Error> {
        let mut list: Vec<Variable> = Vec::new();
        while !self.accept(close)? {
            if !list.is_empty() {
                self.expect(',')?;
            }
            let Token::Word(name) = self.token else {
                return self.error(format!("expected a variable, found {}", self.found()));
            };
            if self.names.iter().any(|(n, _)| **n == *name) {
                return self.error(format!("variable `{name}` is listed twice"));
            }
            let var = variable(list.len() as u32);
            let mut entry = Variable::new(Interval::FULL);
            if Expr::variable(var).to_string() != name {
                entry = entry.named(name);
            }
            self.names.push((Arc::from(name), var));
            list.push(entry);
            self.advance()?;
        }
        Ok(list)
    }

    fn interval(&mut self) -> Result<Interval, Error> {
        self.expect('[')?;
        let lower = self.integer()?;
        self.expect(',')?;
        let upper = self.integer()?;
        self.expect(']')?;
        Ok(Interval::new(lower, upper))
    }

    fn integer(&mut self) -> Result<i64, Error> {
        let negative = self.accept('-')?;
        let Token::Number(magnitude) = self.token else {
            return self.error(format!("expected an integer, found {}", self.found()));
        };
        let value = self.signed(magnitude, negative)?;
        self.advance()?;
        Ok(value)
    }

    fn signed(&self, magnitude: u64, negative: bool) -> Result<i64, Error> {
        let value = if negative { -i128::from(magnitude) } else { i128::from(magnitude) };
        i64::try_from(value).or_else(|_| self.error("integer does not fit in 64 bits"))
    }

    fn checked(&self, expr: Expr) -> Result<Expr, Error> {
        if expr.depth() > MAX_DEPTH {
            return self.error(format!("expression nests deeper than {MAX_DEPTH}"));
        }
        Ok(expr)
    }

    fn sum(&mut self) -> Result<Expr, Error> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.error(format!("expression nests deeper than {MAX_DEPTH}"));
        }
        let mut sum = self.product()?;
        loop {
            if self.accept('+')? {
                sum = sum + self.product()?;
            } else if self.accept('-')? {
                sum = sum - self.product()?;
            } else {
                self.depth -= 1;
                return self.checked(sum);
            }
            sum = self.checked(sum)?;
        }
    }

    fn product(&mut self) -> Result<Expr, Error> {
        let mut product = self.factor()?;
        loop {
            let operator = match self.token {
                Token::Symbol('*') => Operator::Mul,
                Token::Symbol('/') | Token::Word("floordiv") => Operator::FloorDiv,
                Token::Symbol('%') | Token::Word("mod") => Operator::Mod,
                Token::Word("ceildiv") => Operator::CeilDiv,
                _ => return Ok(product),
            };
            self.advance()?;
            let right = self.factor()?;
            product = self.checked(Expr::binary(operator, product, right))?;
        }
    }

    fn factor(&mut self) -> Result<Expr, Error> {
        let mut negative = false;
        while self.accept('-')? {
            negative = !negative;
        }
        match self.token {
            Token::Number(magnitude) => {
                let value = self.signed(magnitude, negative)?;
                self.advance()?;
                Ok(Expr::constant(value))
            }
            Token::Symbol('(') => {
                self.advance()?;
                let inner = self.sum()?;
                self.expect(')')?;
                Ok(if negative { -inner } else { inner })
            }
            Token::Word("min" | "max") => {
                let operator = if self.token == Token::Word("min") { Operator::Min } else { Operator::Max };
                self.advance()?;
                self.expect('(')?;
                let mut value = self.sum()?;
                while self.accept(',')? {
                    let next = self.sum()?;
                    value = self.checked(Expr::binary(operator, value, next))?;
                }
                self.expect(')')?;
                Ok(if negative { -value } else { value })
            }
            Token::Word(name) => {
                if let Some((_, variable)) = self.names.iter().find(|(n, _)| **n == *name) {
                    let value = Expr::variable(*variable);
                    self.advance()?;
                    return Ok(if negative { -value } else { value });
                }
                self.error(format!("`{name}` is not a variable of the map"))
            }
            Token::Arrow | Token::Symbol(_) | Token::End => {
                self.error(format!("expected an expression, found {}", self.found()))
            }
        }
    }
}
