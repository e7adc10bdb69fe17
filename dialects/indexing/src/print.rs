//! The text form of maps; that of expressions is `mlir_ext::affine`'s.

use std::fmt::{self, Display, Formatter};

use mlir_ext::affine::{Expr, Named, Var};

use crate::interval::Interval;
use crate::map::IndexingMap;

/// The name of a variable that was given none; `runtime` is its place among the run-time variables.
pub(crate) fn default_name(variable: Var, runtime: Option<usize>) -> String {
    match (variable, runtime) {
        (Var::Dim(i), _) => format!("d{i}"),
        (Var::Symbol(_), Some(i)) => format!("rt{i}"),
        (Var::Symbol(i), None) => format!("s{i}"),
    }
}

impl IndexingMap<'_> {
    /// The name of a variable.
    pub(crate) fn name(&self, variable: Var) -> String {
        match self.variable(variable).and_then(|v| v.name.as_deref()) {
            Some(name) => name.to_string(),
            None => default_name(variable, self.as_runtime(variable)),
        }
    }

    fn write_names(
        &self,
        open: &str,
        variables: impl Iterator<Item = Var>,
        close: &str,
        f: &mut Formatter<'_>,
    ) -> fmt::Result {
        let names: Vec<String> = variables.map(|variable| self.name(variable)).collect();
        write!(f, "{open}{}{close}", names.join(", "))
    }

    /// The map without its domain, as an affine map is written: `(d0)[s0] -> (d0 + s0)`.
    pub fn signature(&self) -> impl Display + '_ {
        struct Signature<'a, 'c>(&'a IndexingMap<'c>);
        impl Display for Signature<'_, '_> {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                let map = self.0;
                map.write_names("(", (0..map.dims().len()).map(|i| Var::Dim(i as u32)), ")", f)?;
                if !map.ranges().is_empty() {
                    map.write_names("[", (0..map.ranges().len()).map(|i| map.range(i)), "]", f)?;
                }
                if !map.runtimes().is_empty() {
                    map.write_names("{", (0..map.runtimes().len()).map(|i| map.runtime(i)), "}", f)?;
                }
                let results: Vec<String> = map.results().iter().map(|&expr| map.named(expr).to_string()).collect();
                write!(f, " -> ({})", results.join(", "))
            }
        }
        Signature(self)
    }

    /// An expression over this map's variables, with their names.
    pub fn named<'a>(&'a self, expr: Expr<'a>) -> impl Display + 'a {
        struct InMap<'a, 'c>(&'a IndexingMap<'c>, Expr<'a>);
        impl Display for InMap<'_, '_> {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                Named { expr: self.1, name: &|variable, f| f.write_str(&self.0.name(variable)) }.fmt(f)
            }
        }
        InMap(self, expr)
    }
}

impl Display for IndexingMap<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.is_known_empty() {
            return f.write_str("KNOWN EMPTY");
        }
        write!(f, "{}", self.signature())?;
        // A variable nothing is known about has no entry, as when the text gave none.
        let bounded = self.all_variables().filter(|&variable| self.bounds(variable) != Interval::FULL);
        let bounds = bounded.map(|variable| (self.name(variable), self.bounds(variable)));
        let constraints = self.constraints().iter().map(|c| (self.named(c.expr).to_string(), c.interval));
        for (i, (text, interval)) in bounds.chain(constraints).enumerate() {
            write!(f, "{} {text} in {interval}", if i == 0 { ", domain:" } else { "," })?;
        }
        Ok(())
    }
}
