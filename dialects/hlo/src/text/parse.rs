//! Text to syntax tree.
//!
//! The text is read statement by statement: pest reads a heading or one instruction, [`crate::text::scan`] the attribute
//! values and literals. So memory beyond the tree is bounded by one statement, and time is linear. Computations
//! written inside an instruction (`to_apply={ ... }`) are kept on a stack of open bodies, not read by recursion.

use std::collections::HashMap;
use std::rc::Rc;

use crate::ops;
use crate::ops::view::counted;
use crate::shape::Shape;
use pest::iterators::Pair;

use crate::text::ast::{
    Attribute, Called, ComputationNode, InstructionNode, ModuleNode, OperandNode, Table, TableKind,
};
use crate::text::error::{Error, Errors, Faults};
use crate::text::grammar::{self, Rule};
use crate::text::resolve;
use crate::text::scan::{self, Cursor};
use crate::text::shapes;
use crate::text::source::{Location, SourceLines};

/// Reads a module; an error is the first one of the text.
pub fn parse(text: &str) -> Result<ModuleNode<'_>, Error> {
    let mut faults = Vec::new();
    let module = parse_collecting(text, &mut faults);
    match Errors::in_order(faults).0.into_iter().next() {
        Some(first) => Err(first),
        None => module,
    }
}

/// Reads a module. Faults that leave the rest readable are collected, and mark their instructions; others are errors.
pub(crate) fn parse_collecting<'t>(text: &'t str, faults: &mut Vec<Error>) -> Result<ModuleNode<'t>, Error> {
    let source = SourceLines::new(text);
    scan::check_nesting(source)?;
    let mut parser = Parser {
        cursor: Cursor::new(source),
        shapes: SharedShapes { source, known: HashMap::new() },
        computations: Vec::new(),
        entry: None,
        open: Vec::new(),
        faults: Faults(faults),
    };
    parser.module()
}

/// The shapes of the text, each read once: a program has many instructions and few shapes.
struct SharedShapes<'t> {
    source: SourceLines<'t>,
    known: HashMap<&'t str, Rc<Shape>>,
}

impl<'t> SharedShapes<'t> {
    fn read(&mut self, pair: Pair<'t, Rule>) -> Result<Rc<Shape>, Error> {
        if let Some(shape) = self.known.get(pair.as_str()) {
            return Ok(shape.clone());
        }
        let text = pair.as_str();
        let shape = Rc::new(shapes::shape(self.source, pair)?);
        self.known.insert(text, shape.clone());
        Ok(shape)
    }
}

/// A computation being read.
struct Body<'t> {
    name: &'t str,
    signature: Option<Signature>,
    instructions: Vec<InstructionNode<'t>>,
    positions: HashMap<&'t str, u32>,
    root: Option<u32>,
    attributes: Vec<Attribute<'t>>,
    caller: Option<Caller<'t>>,
}

/// What a computation's head says of it; a shape with a fault says nothing.
#[derive(Default)]
struct Signature {
    parameters: Vec<Option<Rc<Shape>>>,
    result: Option<Rc<Shape>>,
}

/// The attribute that holds a body: one of the last instruction in the enclosing body.
#[derive(Clone, Copy)]
struct Caller<'t> {
    key: &'t str,
    /// Whether the attribute is a list of bodies.
    list: bool,
}

/// What stands between an instruction's parentheses.
enum Argument<'t> {
    /// The number of a parameter.
    Number(&'t str),
    Operand(OperandNode<'t>),
}

/// What follows an instruction's operands and attributes so far.
enum Next {
    Statement,
    OpenedBody,
}

struct Parser<'t, 'f> {
    cursor: Cursor<'t>,
    shapes: SharedShapes<'t>,
    computations: Vec<ComputationNode<'t>>,
    entry: Option<(usize, &'t str)>,
    open: Vec<Body<'t>>,
    faults: Faults<'f>,
}

impl<'t> Parser<'t, '_> {
    fn source(&self) -> SourceLines<'t> {
        self.cursor.source
    }

    fn module(&mut self) -> Result<ModuleNode<'t>, Error> {
        let mut name = "";
        let mut attributes = Vec::new();
        self.cursor.skip_blank()?;
        if self.at_word("HloModule") {
            let head = grammar::read(Rule::module_head, &mut self.cursor)?;
            name = head.into_inner().next().map_or("", |identifier| identifier.as_str());
            attributes = self.attributes()?;
        }
        let mut tables: Vec<Table<'t>> = Vec::new();
        loop {
            self.cursor.skip_blank()?;
            if self.cursor.peek().is_none() {
                break;
            }
            if let Some(table) = self.table()? {
                tables.push(table);
            } else {
                self.computation()?;
            }
        }
        let end = self.cursor;
        // As for XLA, the last computation where none is marked; but a text that says what its entry takes was cut off.
        let is_printed = attributes.iter().any(|attribute| attribute.key == "entry_computation_layout");
        let last = self.computations.len().checked_sub(1).filter(|_| !is_printed);
        let Some(entry) = self.entry.map(|(position, _)| position).or(last) else {
            return Err(end.expected("a computation marked `ENTRY`"));
        };
        let mut module =
            ModuleNode { name, attributes, tables, computations: std::mem::take(&mut self.computations), entry };
        resolve::resolve(&mut module, end.source, &mut self.faults)?;
        Ok(module)
    }

    fn at_word(&self, word: &str) -> bool {
        let rest = self.cursor.rest();
        rest.starts_with(word) && !rest.as_bytes().get(word.len()).is_some_and(|&byte| scan::is_name_byte(byte))
    }

    /// `, key=value` as often as it comes.
    fn attributes(&mut self) -> Result<Vec<Attribute<'t>>, Error> {
        let mut attributes = Vec::new();
        while let Some(key) = self.attribute_key()? {
            attributes.push(Attribute { key, value: self.cursor.value()? });
        }
        Ok(attributes)
    }

    /// `, key=`, if a comma comes next.
    fn attribute_key(&mut self) -> Result<Option<&'t str>, Error> {
        self.cursor.skip_blank()?;
        if !self.cursor.eat(b',') {
            return Ok(None);
        }
        self.cursor.skip_blank()?;
        let Some(key) = self.cursor.identifier() else {
            return Err(self.cursor.expected("an attribute"));
        };
        if !self.cursor.eat(b'=') {
            return Err(self.cursor.expected("`=`"));
        }
        self.cursor.skip_blank()?;
        Ok(Some(key))
    }

    fn table(&mut self) -> Result<Option<Table<'t>>, Error> {
        let tables = [
            ("FileNames", TableKind::FileNames),
            ("FunctionNames", TableKind::FunctionNames),
            ("FileLocations", TableKind::FileLocations),
            ("StackFrames", TableKind::StackFrames),
        ];
        let Some(&(word, kind)) = tables.iter().find(|(word, _)| self.at_word(word)) else { return Ok(None) };
        self.cursor.position += word.len();
        let mut rows = Vec::new();
        loop {
            self.cursor.skip_blank()?;
            if !self.cursor.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                return Ok(Some(Table { kind, rows }));
            }
            let number = grammar::read(Rule::integer, &mut self.cursor)?.as_str();
            self.cursor.skip_blank()?;
            rows.push((number, self.cursor.value()?));
        }
    }

    fn computation(&mut self) -> Result<(), Error> {
        let mut is_entry = false;
        let mut name = "";
        let mut signature = None;
        for pair in grammar::read(Rule::computation_head, &mut self.cursor)?.into_inner() {
            match pair.as_rule() {
                Rule::entry => is_entry = true,
                Rule::identifier => name = pair.as_str(),
                Rule::signature => signature = Some(self.signature(pair)?),
                _ => {}
            }
        }
        if is_entry {
            if let Some((_, first)) = self.entry {
                return Err(duplicate(self.source(), "entry computation", name, first));
            }
            // The entry is the next computation to end that is not inside another: its position is set when it does.
            self.entry = Some((usize::MAX, name));
        }
        self.open_body(name, signature, None);
        while !self.open.is_empty() {
            self.statement()?;
        }
        if is_entry {
            self.entry = Some((self.computations.len() - 1, name));
        }
        Ok(())
    }

    /// A shape, or none if it has a fault, which is noted.
    fn shape(&mut self, pair: Pair<'t, Rule>) -> Result<Option<Rc<Shape>>, Error> {
        match self.shapes.read(pair) {
            Ok(shape) => Ok(Some(shape)),
            Err(fault) => self.faults.add(fault).map(|()| None),
        }
    }

    fn signature(&mut self, pair: Pair<'t, Rule>) -> Result<Signature, Error> {
        let mut signature = Signature::default();
        for part in pair.into_inner() {
            match part.as_rule() {
                Rule::array | Rule::tuple => signature.result = self.shape(part)?,
                Rule::parameters => {
                    let parameters = part.into_inner().filter(|pair| pair.as_rule() == Rule::parameter);
                    for part in parameters.flat_map(Pair::into_inner) {
                        if matches!(part.as_rule(), Rule::array | Rule::tuple) {
                            signature.parameters.push(self.shape(part)?);
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(signature)
    }

    fn open_body(&mut self, name: &'t str, signature: Option<Signature>, caller: Option<Caller<'t>>) {
        self.open.push(Body {
            name,
            signature,
            instructions: Vec::new(),
            positions: HashMap::new(),
            root: None,
            attributes: Vec::new(),
            caller,
        });
    }

    /// One statement of the innermost open body: an instruction, or the brace that ends it.
    fn statement(&mut self) -> Result<(), Error> {
        self.cursor.skip_blank()?;
        let next = if self.cursor.eat(b'}') {
            self.close_body()?
        } else {
            self.instruction()?;
            self.instruction_attributes()?
        };
        debug_assert!(matches!(next, Next::Statement) || !self.open.is_empty());
        Ok(())
    }

    fn instruction(&mut self) -> Result<(), Error> {
        let source = self.source();
        let pair = grammar::read(Rule::instruction, &mut self.cursor)?;
        let Some(body) = self.open.last_mut() else { return Ok(()) };
        let mut instruction = InstructionNode::nameless("", None);
        let mut operands = Vec::new();
        let (mut is_root, mut literal_follows) = (false, false);
        for part in pair.into_inner() {
            match part.as_rule() {
                Rule::root => is_root = true,
                Rule::identifier => instruction.name = part.as_str(),
                Rule::array | Rule::tuple => match self.shapes.read(part) {
                    Ok(shape) => instruction.shape = Some(shape),
                    Err(fault) => {
                        self.faults.add(fault)?;
                        instruction.faulty = true;
                    }
                },
                Rule::opcode => instruction.opcode = part.as_str(),
                Rule::constant => {
                    instruction.opcode = part.as_str();
                    literal_follows = true;
                }
                Rule::operand => match body.operand(source, &mut self.shapes, part) {
                    Ok(Argument::Number(text)) => instruction.payload = Some(text),
                    Ok(Argument::Operand(operand)) => operands.push(operand),
                    Err(fault) => {
                        self.faults.add(fault)?;
                        instruction.faulty = true;
                    }
                },
                _ => {}
            }
        }
        instruction.operands = operands.into_boxed_slice();
        if literal_follows {
            // The literal's end is where the statement goes on.
            instruction.payload = Some(self.cursor.literal()?);
            self.cursor.position += 1;
        }
        if let Some(&first) = body.positions.get(instruction.name) {
            let first = body.instructions[first as usize].name;
            self.faults.add(duplicate(source, "instruction", instruction.name, first))?;
        }
        let position = body.instructions.len() as u32;
        if is_root {
            if let Some(first) = body.root {
                let first = body.instructions[first as usize].name;
                self.faults.add(duplicate(source, "root", instruction.name, first))?;
            }
            body.root = Some(position);
        }
        body.positions.insert(instruction.name, position);
        body.instructions.push(instruction);
        Ok(())
    }

    /// The attributes of the innermost body's last instruction, up to their end or to a computation written in one.
    fn instruction_attributes(&mut self) -> Result<Next, Error> {
        while let Some(key) = self.attribute_key()? {
            if key == "literal" {
                let value = self.literal_attribute()?;
                self.last_instruction(|instruction| instruction.add_attribute(Attribute { key, value }));
            } else if !ops::names_computations(key) {
                let value = if key == "replica_groups" { self.groups()? } else { self.cursor.value()? };
                self.last_instruction(|instruction| instruction.add_attribute(Attribute { key, value }));
            } else if let Some(list) = self.at_body()? {
                self.open_body("", None, Some(Caller { key, list }));
                return Ok(Next::OpenedBody);
            } else {
                let value = self.cursor.value()?;
                let names: Vec<&'t str> = names_in_braces(value);
                self.last_instruction(|instruction| {
                    let called = names.iter().map(|&text| Called { key, text, computation: u32::MAX });
                    instruction.called.extend(called);
                });
            }
        }
        Ok(Next::Statement)
    }

    fn last_instruction(&mut self, change: impl FnOnce(&mut InstructionNode<'t>)) {
        if let Some(instruction) = self.open.last_mut().and_then(|body| body.instructions.last_mut()) {
            change(instruction);
        }
    }

    /// `literal=f32[2]{0} {1, 2}`: the shape and the value are apart.
    fn literal_attribute(&mut self) -> Result<&'t str, Error> {
        let start = self.cursor.position;
        let first = self.cursor.value()?;
        let after_shape = self.cursor;
        self.cursor.skip_blank()?;
        let ends = matches!(self.cursor.peek(), None | Some(b',' | b'}' | b'\n'));
        if first.starts_with('(')
            || ends
            || self.source().text()[after_shape.position..self.cursor.position].contains('\n')
        {
            self.cursor = after_shape;
            return Ok(first);
        }
        self.cursor.value()?;
        Ok(self.source().text().get(start..self.cursor.position).unwrap_or_default())
    }

    /// `mesh['x'=4,'y'=2] {'x'}`: a mesh and the axes in it are apart.
    fn groups(&mut self) -> Result<&'t str, Error> {
        let start = self.cursor.position;
        let first = self.cursor.value()?;
        if first.starts_with("mesh[") {
            self.cursor.skip_blank()?;
            self.cursor.value()?;
        }
        Ok(self.source().text().get(start..self.cursor.position).unwrap_or(first))
    }

    /// If a computation is written here, passes over the brace (and the list's brace) that opens it, and says whether
    /// it is in a list. `{%a, %b}`, a list of names, is none.
    fn at_body(&mut self) -> Result<Option<bool>, Error> {
        let mut ahead = self.cursor;
        if !ahead.eat(b'{') {
            return Ok(None);
        }
        ahead.skip_blank()?;
        let list = ahead.eat(b'{');
        if !list {
            let mut inside = ahead;
            let is_root = inside.name() == Some("ROOT");
            inside.skip_blank()?;
            if !is_root && !inside.eat(b'=') {
                return Ok(None);
            }
        }
        self.cursor = ahead;
        Ok(Some(list))
    }

    fn close_body(&mut self) -> Result<Next, Error> {
        let Some(mut body) = self.open.pop() else { return Ok(Next::Statement) };
        if body.caller.is_none() {
            body.attributes = self.attributes()?;
        }
        let caller = body.caller;
        let open_brace = self.source().text().get(self.cursor.position - 1..self.cursor.position).unwrap_or_default();
        let computation = body.finish(self.cursor, &mut self.faults)?;
        let id = self.computations.len() as u32;
        self.computations.push(computation);
        let Some(Caller { key, list }) = caller else { return Ok(Next::Statement) };
        self.last_instruction(|instruction| {
            instruction.called.push(Called { key, text: open_brace, computation: id });
        });
        if list {
            self.cursor.skip_blank()?;
            if self.cursor.eat(b',') {
                self.cursor.skip_blank()?;
                if !self.cursor.eat(b'{') {
                    return Err(self.cursor.expected("`{`"));
                }
                self.open_body("", None, Some(Caller { key, list }));
                return Ok(Next::OpenedBody);
            }
            if !self.cursor.eat(b'}') {
                return Err(self.cursor.expected("`,` or `}`"));
            }
        }
        self.instruction_attributes()
    }
}

fn duplicate(source: SourceLines<'_>, what: &'static str, name: &str, first: &str) -> Error {
    Error::Duplicate { at: source.location_of(name), what, name: name.to_string(), first: source.location_of(first) }
}

/// The names in `%a`, `a` or `{%a, %b}`.
pub(crate) fn names_in_braces(value: &str) -> Vec<&str> {
    value
        .trim_start_matches('{')
        .trim_end_matches('}')
        .split(',')
        .map(|name| {
            let name = name.trim();
            name.strip_prefix('%').unwrap_or(name)
        })
        .filter(|name| !name.is_empty())
        .collect()
}

impl<'t> Body<'t> {
    /// Reads an operand. One that is itself an instruction is added to the body first.
    fn operand(
        &mut self,
        source: SourceLines<'t>,
        shapes: &mut SharedShapes<'t>,
        pair: Pair<'t, Rule>,
    ) -> Result<Argument<'t>, Error> {
        let mut shape = None;
        let mut text = "";
        let mut arguments = None;
        for part in pair.into_inner() {
            match part.as_rule() {
                Rule::integer => return Ok(Argument::Number(part.as_str())),
                Rule::array | Rule::tuple => shape = Some(shapes.read(part)?),
                Rule::identifier => text = part.as_str(),
                Rule::arguments => arguments = Some(part),
                _ => {}
            }
        }
        let instruction = match arguments {
            Some(arguments) => self.nameless_instruction(source, shapes, shape, text, arguments)?,
            None => {
                let Some(&position) = self.positions.get(text) else {
                    return Err(Error::Undefined {
                        at: source.location_of(text),
                        what: "operand",
                        name: text.to_string(),
                        later: defined_later(source, text),
                    });
                };
                if let (Some(declared), Some(found)) = (&shape, &self.instructions[position as usize].shape)
                    && !declared.compatible(found)
                {
                    return Err(Error::OperandShape {
                        at: source.location_of(text),
                        name: text.to_string(),
                        declared: declared.to_string(),
                        found: found.to_string(),
                        definition: source.location_of(self.instructions[position as usize].anchor()),
                    });
                }
                position
            }
        };
        Ok(Argument::Operand(OperandNode { text, instruction }))
    }

    /// Adds an instruction written as an operand, and its operands; recursion is bounded by the nesting of brackets.
    fn nameless_instruction(
        &mut self,
        source: SourceLines<'t>,
        shapes: &mut SharedShapes<'t>,
        shape: Option<Rc<Shape>>,
        opcode: &'t str,
        arguments: Pair<'t, Rule>,
    ) -> Result<u32, Error> {
        let mut instruction = InstructionNode::nameless(opcode, shape);
        if opcode == "constant" {
            let text = arguments.as_str();
            instruction.payload = Some(text[1..text.len() - 1].trim());
        } else {
            let mut operands = Vec::new();
            for part in arguments.into_inner() {
                match part.as_rule() {
                    Rule::operand => match self.operand(source, shapes, part)? {
                        Argument::Number(text) => instruction.payload = Some(text),
                        Argument::Operand(operand) => operands.push(operand),
                    },
                    Rule::literal_text => return Err(Cursor::at(source, part.as_str()).expected("an operand")),
                    _ => {}
                }
            }
            instruction.operands = operands.into_boxed_slice();
        }
        self.instructions.push(instruction);
        Ok(self.instructions.len() as u32 - 1)
    }

    /// The computation, once its last brace is read; `end` is behind that.
    fn finish(self, end: Cursor<'t>, faults: &mut Faults<'_>) -> Result<ComputationNode<'t>, Error> {
        let source = end.source;
        let fault = |slice: &str, reason: String| Error::Computation { at: source.location_of(slice), reason };
        let Some(last) = self.instructions.len().checked_sub(1) else {
            let brace = source.text().get(end.position - 1..end.position).unwrap_or_default();
            return Err(fault(
                if self.name.is_empty() { brace } else { self.name },
                "a computation needs an instruction".into(),
            ));
        };
        let root = self.root.unwrap_or(last as u32);
        let root_instruction = &self.instructions[root as usize];
        let declared_result = self.signature.as_ref().and_then(|signature| signature.result.as_ref());
        if let (Some(declared), Some(found)) = (declared_result, &root_instruction.shape)
            && !declared.compatible(found)
        {
            faults.add(fault(
                root_instruction.anchor(),
                format!("the root has shape {found}, but the computation is declared to give {declared}"),
            ))?;
        }
        let mut numbered: Vec<(i64, u32)> = Vec::new();
        for (position, instruction) in self.instructions.iter().enumerate() {
            if instruction.opcode == "parameter" {
                let Some(number) = instruction.payload else {
                    faults.add(fault(instruction.anchor(), "a parameter needs its number".into()))?;
                    continue;
                };
                numbered.push((shapes::integer(source, number)?, position as u32));
            }
        }
        for instruction in &self.instructions {
            let orders = instruction.attributes.iter().filter(|attribute| attribute.key == "control-predecessors");
            for name in orders.flat_map(|attribute| names_in_braces(attribute.value)) {
                if !self.positions.contains_key(name) {
                    let (at, name) = (source.location_of(name), name.to_string());
                    faults.add(Error::Undefined { at, what: "instruction", name, later: None })?;
                }
            }
        }
        numbered.sort_unstable();
        for (expected, &(number, position)) in numbered.iter().enumerate() {
            if number != expected as i64 {
                let count = numbered.len();
                let at = self.instructions[position as usize].payload.unwrap_or_default();
                faults.add(fault(
                    at,
                    format!("{count} parameters must be numbered 0..{count}, each once, got {number}"),
                ))?;
                break;
            }
        }
        if let Some(Signature { parameters: declared, .. }) = &self.signature {
            if declared.len() != numbered.len() {
                let (declared, found) = (counted(declared.len(), "parameter"), numbered.len());
                faults.add(fault(self.name, format!("the computation is declared with {declared}, it has {found}")))?;
            }
            for (declared, &(number, position)) in declared.iter().zip(&numbered) {
                let parameter = &self.instructions[position as usize];
                if let (Some(declared), Some(found)) = (declared, &parameter.shape)
                    && !declared.compatible(found)
                {
                    let reason = format!("parameter {number} has shape {found}, but is declared as {declared}");
                    faults.add(fault(parameter.anchor(), reason))?;
                }
            }
        }
        Ok(ComputationNode {
            name: self.name,
            parameters: numbered.into_iter().map(|(_, position)| position).collect(),
            instructions: self.instructions,
            root,
            attributes: self.attributes,
        })
    }
}

/// Where an instruction called `name` is defined somewhere behind its use.
fn defined_later(source: SourceLines<'_>, name: &str) -> Option<Location> {
    let start = source.span_of(name).end;
    let rest = source.text().get(start..).unwrap_or_default();
    let found = memchr::memmem::find_iter(rest.as_bytes(), name.as_bytes()).find(|found| {
        rest.as_bytes()[found + name.len()..].starts_with(b" = ")
            && found.checked_sub(1).is_some_and(|before| !scan::is_name_byte(rest.as_bytes()[before]))
    })?;
    Some(source.location(start + found..start + found + name.len()))
}
