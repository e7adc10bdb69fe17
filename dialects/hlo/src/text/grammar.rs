//! The pest grammar (`hlo.pest`) and what its rules are called in messages.

use pest::Parser;
use pest::error::{ErrorVariant, InputLocation};
use pest::iterators::Pair;

use crate::text::error::Error;
use crate::text::scan::Cursor;
pub(crate) use generated::Rule;

#[allow(missing_docs)]
mod generated {
    #[derive(pest_derive::Parser)]
    #[grammar = "text/hlo.pest"]
    pub(crate) struct HloGrammar;
}

/// Reads `rule` at the cursor and moves behind it.
pub(crate) fn read<'t>(rule: Rule, cursor: &mut Cursor<'t>) -> Result<Pair<'t, Rule>, Error> {
    match generated::HloGrammar::parse(rule, cursor.rest()).map(|mut pairs| pairs.next()) {
        Ok(Some(pair)) => {
            cursor.position += pair.as_span().end();
            Ok(pair)
        }
        Ok(None) => Err(cursor.expected(&describe(rule))),
        Err(error) => Err(syntax_error(rule, *cursor, error)),
    }
}

/// Reads `rule` from all of `slice`; blanks and comments may follow.
pub(crate) fn read_all<'t>(
    rule: Rule,
    source: crate::text::source::SourceLines<'t>,
    slice: &str,
) -> Result<Pair<'t, Rule>, Error> {
    let mut cursor = Cursor::at(source, slice);
    let end = cursor.position + slice.len();
    let pair = read(rule, &mut cursor)?;
    cursor.skip_blank()?;
    if cursor.position < end { Err(cursor.expected("the end of this value")) } else { Ok(pair) }
}

fn syntax_error(rule: Rule, mut cursor: Cursor<'_>, error: pest::error::Error<Rule>) -> Error {
    cursor.position += match error.location {
        InputLocation::Pos(position) | InputLocation::Span((position, _)) => position,
    };
    match error.variant {
        ErrorVariant::ParsingError { positives, .. } => {
            let mut names: Vec<String> = Vec::new();
            for rule in if positives.is_empty() { vec![rule] } else { positives } {
                let name = describe(rule);
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            cursor.expected(&join_or(&names))
        }
        ErrorVariant::CustomError { message } => cursor.expected(&format!("less to read at once ({message})")),
    }
}

/// `a`, `a or b`, `a, b or c`.
pub(crate) fn join_or(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// What a rule is called in messages.
fn describe(rule: Rule) -> String {
    match rule {
        Rule::equals => "`=`",
        Rule::comma => "`,`",
        Rule::colon => "`:`",
        Rule::arrow => "`->`",
        Rule::open_paren => "`(`",
        Rule::close_paren => "`)`",
        Rule::close_bracket => "`]`",
        Rule::open_brace => "`{`",
        Rule::close_brace => "`}`",
        Rule::identifier => "a name",
        Rule::integer => "an integer",
        Rule::array | Rule::array_of_literal | Rule::tuple | Rule::element_type => "a shape",
        Rule::entry => "`ENTRY`",
        Rule::root => "`ROOT`",
        Rule::constant | Rule::opcode => "an opcode",
        Rule::arguments | Rule::parameters => "`(`",
        Rule::tiles | Rule::memory_space | Rule::element_size | Rule::level_types | Rule::layout_extension => {
            "a layout property"
        }
        Rule::level_type => "`D`, `C`, `S` or `H`, with `+` or `~`",
        Rule::integers => "integers in braces",
        Rule::integer_lists => "lists of integers in braces",
        Rule::words => "words in braces",
        Rule::shapes => "shapes in braces",
        Rule::window => "a window in braces",
        Rule::slice => "`[start:limit]` for each dimension, in braces",
        Rule::replica_groups | Rule::iota_groups | Rule::mesh_groups => {
            "groups in braces, `[...]<=[...]` or `mesh[...] {...}`"
        }
        Rule::dimension_labels | Rule::labels => "labels as in `b01f_01io->b01f`",
        Rule::mesh_grouped => "axes in braces as in `{'x'}`",
        Rule::mesh_axis | Rule::mesh_name | Rule::axis_name => "an axis as in `'x'=4`",
        Rule::extents => "`[`",
        Rule::permutation => "`T(`",
        Rule::window_padding => "padding as in `1_1x0_2`",
        Rule::accuracy_mode | Rule::accuracy_tolerance => "`mode=` or `tolerance=`",
        Rule::mode_name => "`default` or `highest`",
        Rule::tolerance_field | Rule::tolerance_key => "`rtol=`, `atol=` or `ulps=`",
        Rule::tolerance_value => "a number",
        Rule::donors | Rule::donor => "donors as in `{ (0, {1}) }`",
        Rule::padding | Rule::padding_dimension => "padding as in `1_1x0_2`",
        Rule::entry_layout | Rule::layout_parameters => "a layout as in `{(f32[])->f32[]}`",
        Rule::aliases | Rule::alias => "aliases as in `{ {0}: (1, {}, may-alias) }`",
        Rule::table_fields | Rule::table_field => "fields as in `{line=1}`",
        other => {
            let name = format!("{other:?}").replace('_', " ");
            let article = if name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
            return format!("{article} {name}");
        }
    }
    .to_string()
}
