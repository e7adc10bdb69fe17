//! Reads the text form of maps and expressions; the inverse of printing.
//!
//! `floordiv` may be written `/` and `mod` `%`. A variable without an entry in the domain is unbounded; a
//! second entry for a variable narrows its bounds. `min` and `max` may be written where the domain decides which of
//! the values it is. Expressions nest at most [`MAX_DEPTH`] deep.

use std::sync::Arc;

use melior::Context;
use mlir_ext::affine::{Expr, Operator, Var};

use crate::error::Error;
use crate::interval::Interval;
use crate::map::{IndexingMap, Variable};
use crate::print::default_name;

/// The deepest expression the parser accepts, so that recursion over a parsed expression is safe.
pub const MAX_DEPTH: usize = 256;

/// Number of the symbol that stands for the first minimum or maximum until the domain has been read.
const FIRST_CHOICE: u32 = 1 << 30;

/// A minimum or maximum of two expressions.
struct Choice<'c> {
    offset: usize,
    is_minimum: bool,
    left: Expr<'c>,
    right: Expr<'c>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Token<'a> {
    Arrow,
    Number(u64),
    Word(&'a str),
    Symbol(char),
    End,
}

struct Parser<'a, 'c> {
    context: &'c Context,
    text: &'a str,
    position: usize,
    token: Token<'a>,
    token_start: usize,
    names: Vec<(Arc<str>, Var)>,
    depth: usize,
    choices: Vec<Choice<'c>>,
}

impl<'c> IndexingMap<'c> {
    /// Parses `(d0)[s0]{rt0} -> (…), domain: …` or `KNOWN EMPTY`.
    ///
    /// # Errors
    /// [`Error::Parse`] if the text is no map.
    pub fn parse(context: &'c Context, text: &str) -> Result<Self, Error> {
        let mut parser = Parser::new(context, text)?;
        let map = parser.map()?;
        parser.expect_end()?;
        Ok(map)
    }

    /// Parses an expression over the variables of this map.
    ///
    /// # Errors
    /// [`Error::Parse`] if the text is no expression, or names another variable.
    pub fn parse_expr(&self, text: &str) -> Result<Expr<'c>, Error> {
        let mut parser = Parser::new(self.context, text)?;
        parser.names = self.all_variables().map(|v| (self.name(v).into(), v)).collect();
        let expr = parser.sum()?;
        parser.expect_end()?;
        Ok(decided(expr, &parser.decisions(self)?))
    }
}

impl<'a, 'c> Parser<'a, 'c> {
    fn new(context: &'c Context, text: &'a str) -> Result<Self, Error> {
        let mut parser = Parser {
            context,
            text,
            position: 0,
            token: Token::End,
            token_start: 0,
            names: Vec::new(),
            depth: 0,
            choices: Vec::new(),
        };
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

    fn map(&mut self) -> Result<IndexingMap<'c>, Error> {
        if self.token == Token::Word("KNOWN") {
            self.advance()?;
            self.expect_word("EMPTY")?;
            let mut map = IndexingMap::from_sizes(self.context, &[], &[], Vec::new());
            map.reset_to_known_empty();
            return Ok(map);
        }
        self.expect('(')?;
        let dims = self.names(')', Var::Dim, None)?;
        let ranges = if self.accept('[')? { self.names(']', Var::Symbol, None)? } else { Vec::new() };
        let first = ranges.len() as u32;
        let runtimes = if self.accept('{')? { self.names('}', Var::Symbol, Some(first))? } else { Vec::new() };
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
        let mut map = IndexingMap::new(self.context, dims, ranges, runtimes, Vec::new(), Vec::new());
        let mut constraints = Vec::new();
        if self.accept(',')? || self.token == Token::Word("domain") {
            self.expect_word("domain")?;
            self.expect(':')?;
            while self.token != Token::End {
                let expr = self.sum()?;
                self.expect_word("in")?;
                let interval = self.interval()?;
                match expr.as_variable().filter(|&variable| map.variable(variable).is_some()) {
                    Some(_) => map.add_constraint(expr, interval),
                    None => constraints.push((expr, interval)),
                }
                if !self.accept(',')? {
                    break;
                }
            }
        }
        let decisions = self.decisions(&map)?;
        map = map.with_results(results.into_iter().map(|expr| decided(expr, &decisions)).collect());
        for (expr, interval) in constraints {
            map.add_constraint(decided(expr, &decisions), interval);
        }
        Ok(map)
    }

    /// What each minimum or maximum is on a domain.
    fn decisions(&self, domain: &IndexingMap<'c>) -> Result<Vec<Expr<'c>>, Error> {
        let mut decisions = Vec::new();
        for choice in &self.choices {
            let (left, right) = (decided(choice.left, &decisions), decided(choice.right, &decisions));
            let difference = domain.range_of(domain.simplify_expr(left - right));
            let order = if choice.is_minimum { difference } else { -difference };
            decisions.push(match order {
                order if order.upper <= 0 => left,
                order if order.lower >= 0 => right,
                _ => {
                    let message = "an affine expression has no minimum or maximum that its domain does not decide";
                    return Err(Error::Parse { offset: choice.offset, message: message.to_string() });
                }
            });
        }
        Ok(decisions)
    }

    /// The variables up to `close`; `first` is the number of the first one's symbol if they are run-time variables.
    fn names(&mut self, close: char, variable: fn(u32) -> Var, first: Option<u32>) -> Result<Vec<Variable<'c>>, Error> {
        let mut list: Vec<Variable<'c>> = Vec::new();
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
            let var = variable(first.unwrap_or(0) + list.len() as u32);
            let entry = Variable::new(Interval::FULL);
            let is_default = default_name(var, first.map(|_| list.len())) == name;
            self.names.push((Arc::from(name), var));
            list.push(if is_default { entry } else { entry.named(name) });
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

    fn checked(&self, expr: Expr<'c>) -> Result<Expr<'c>, Error> {
        if expr.depth() > MAX_DEPTH {
            return self.error(format!("expression nests deeper than {MAX_DEPTH}"));
        }
        Ok(expr)
    }

    fn sum(&mut self) -> Result<Expr<'c>, Error> {
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

    fn product(&mut self) -> Result<Expr<'c>, Error> {
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

    fn factor(&mut self) -> Result<Expr<'c>, Error> {
        let mut negative = false;
        while self.accept('-')? {
            negative = !negative;
        }
        match self.token {
            Token::Number(magnitude) => {
                let value = self.signed(magnitude, negative)?;
                self.advance()?;
                Ok(Expr::constant(self.context, value))
            }
            Token::Symbol('(') => {
                self.advance()?;
                let inner = self.sum()?;
                self.expect(')')?;
                Ok(if negative { -inner } else { inner })
            }
            Token::Word(word @ ("min" | "max")) => {
                let offset = self.token_start;
                self.advance()?;
                self.expect('(')?;
                let mut value = self.sum()?;
                while self.accept(',')? {
                    let choice = Choice { offset, is_minimum: word == "min", left: value, right: self.sum()? };
                    value = Expr::symbol(self.context, FIRST_CHOICE as usize + self.choices.len());
                    self.choices.push(choice);
                }
                self.expect(')')?;
                Ok(if negative { -value } else { value })
            }
            Token::Word(name) => {
                if let Some((_, variable)) = self.names.iter().find(|(n, _)| **n == *name) {
                    let value = Expr::variable(self.context, *variable);
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

/// The expression with what its minima and maxima are.
fn decided<'c>(expr: Expr<'c>, decisions: &[Expr<'c>]) -> Expr<'c> {
    if decisions.is_empty() {
        return expr;
    }
    expr.substitute(&|variable| match variable {
        Var::Dim(_) => None,
        Var::Symbol(i) => decisions.get(i.checked_sub(FIRST_CHOICE)? as usize).copied(),
    })
}
