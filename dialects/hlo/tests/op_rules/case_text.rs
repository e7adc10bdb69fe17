//! Text of the cases: an operation in HLO's spelling with shapes for operands and signatures for computations.
//!
//! `f32[3,2] transpose(f32[2,3]), dimensions={1,0}`; computations: `to_apply=(f32[], f32[]) -> f32[]`. A constant's
//! value is given by its shape (`value=f32[2]`, zeros), a parameter's number as `parameter_number=0`.

use hlo::attributes::{
    AttributeForm, AttributeValue, Attributes, ConvolutionDimensions, PaddingDimension, ReplicaGroups, SliceDimension,
    WindowDimension,
};
use hlo::element_type::ElementType;
use hlo::literal::{ArrayLiteral, Literal};
use hlo::op_kind::OpKind;
use hlo::ops;
use hlo::shape::{ArrayShape, ProgramShape, Shape, UNBOUNDED};

/// An operation that a case checks.
pub struct Operation {
    /// Operation.
    pub kind: OpKind,
    /// Declared result.
    pub result: Option<Shape>,
    /// Shapes of the operands.
    pub operands: Vec<Shape>,
    /// Attributes.
    pub attributes: Attributes,
    /// Signatures of the computations.
    pub computations: Vec<ProgramShape>,
}

/// Reads an operation, with or without a declared result.
pub fn operation(text: &str) -> Result<Operation, String> {
    let mut cursor = Cursor { rest: text };
    let result = cursor.starts_shape().then(|| cursor.shape()).transpose()?;
    let kind: OpKind = cursor.word().parse().map_err(|error| format!("{error}"))?;
    let operands = cursor.list('(', ')', Cursor::shape)?;
    let definition = ops::definition(kind);
    let mut attributes = Attributes::new();
    let mut computations = Vec::new();
    while cursor.take(",") {
        let key = cursor.word();
        cursor.expect("=")?;
        if definition.computations.iter().any(|name| name.name() == key) {
            if cursor.peek('{') {
                computations.extend(cursor.list('{', '}', Cursor::signature)?);
            } else {
                computations.push(cursor.signature()?);
            }
            continue;
        }
        let spec = definition.attribute(key).ok_or_else(|| format!("{kind} has no attribute {key}"))?;
        attributes.set(spec.name, cursor.attribute(spec.form)?);
    }
    if cursor.rest.trim().is_empty() {
        Ok(Operation { kind, result, operands, attributes, computations })
    } else {
        Err(format!("cannot read `{}`", cursor.rest))
    }
}

struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    fn peek(&mut self, character: char) -> bool {
        self.rest = self.rest.trim_start();
        self.rest.starts_with(character)
    }

    fn take(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.take(token) { Ok(()) } else { Err(format!("expected `{token}` before `{}`", self.rest)) }
    }

    /// Text up to the first character that is not of a word.
    fn word(&mut self) -> &'a str {
        self.until(|c: char| !(c.is_ascii_alphanumeric() || "_-.".contains(c)))
    }

    fn until(&mut self, end: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest.trim_start();
        let (word, rest) = rest.split_at(rest.find(end).unwrap_or(rest.len()));
        self.rest = rest;
        word
    }

    fn int(&mut self) -> Result<i64, String> {
        let word = self.word();
        word.parse().map_err(|_| format!("`{word}` is not an integer"))
    }

    fn list<T>(
        &mut self,
        open: char,
        close: char,
        item: impl Fn(&mut Self) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        self.expect(open.encode_utf8(&mut [0; 4]))?;
        let close = close.to_string();
        let mut items = Vec::new();
        while !self.take(&close) {
            items.push(item(self)?);
            self.take(",");
        }
        Ok(items)
    }

    fn starts_shape(&mut self) -> bool {
        self.peek('(')
            || self
                .rest
                .split_once(['[', '('])
                .is_some_and(|(word, _)| word == "token" || word == "opaque" || word.parse::<ElementType>().is_ok())
    }

    fn shape(&mut self) -> Result<Shape, String> {
        if self.peek('(') {
            return Ok(Shape::Tuple(self.list('(', ')', Cursor::shape)?));
        }
        let name = self.word();
        let dimensions = self.list('[', ']', Cursor::dimension)?;
        match name {
            "token" => return Ok(Shape::Token),
            "opaque" => return Ok(Shape::Opaque),
            _ => {}
        }
        let element_type: ElementType = name.parse().map_err(|error| format!("{error}"))?;
        let sizes: Vec<i64> = dimensions.iter().map(|(size, _)| *size).collect();
        let mut shape = ArrayShape::new(element_type, sizes);
        for (position, (_, dynamic)) in dimensions.iter().enumerate() {
            if *dynamic {
                shape.set_dynamic_dimension(position, true);
            }
        }
        Ok(shape.into())
    }

    fn dimension(&mut self) -> Result<(i64, bool), String> {
        if self.take("?") {
            return Ok((UNBOUNDED, true));
        }
        let dynamic = self.take("<=");
        Ok((self.int()?, dynamic))
    }

    fn signature(&mut self) -> Result<ProgramShape, String> {
        let parameters = self.list('(', ')', Cursor::shape)?;
        self.expect("->")?;
        Ok(ProgramShape { parameters, result: self.shape()? })
    }

    fn attribute(&mut self, form: AttributeForm) -> Result<AttributeValue, String> {
        Ok(match form {
            AttributeForm::Int => AttributeValue::Int(self.int()?),
            AttributeForm::Ints => AttributeValue::Ints(self.list('{', '}', Cursor::int)?),
            AttributeForm::Bool => AttributeValue::Bool(self.word() == "true"),
            AttributeForm::Float => AttributeValue::Float(self.word().parse().map_err(|error| format!("{error}"))?),
            AttributeForm::Word => AttributeValue::Word(self.word().to_string()),
            AttributeForm::Words => AttributeValue::Words(self.list('{', '}', |cursor| Ok(cursor.word().to_string()))?),
            AttributeForm::String => {
                self.expect("\"")?;
                let text = self.until(|c| c == '"').to_string();
                self.expect("\"")?;
                AttributeValue::String(text)
            }
            AttributeForm::Window => AttributeValue::Window(self.window()?),
            AttributeForm::Slice => AttributeValue::Slice(self.list('{', '}', Cursor::slice)?),
            AttributeForm::Padding => AttributeValue::Padding(self.padding()?),
            AttributeForm::ConvolutionDimensions => AttributeValue::ConvolutionDimensions(self.labels()?),
            AttributeForm::ReplicaGroups => AttributeValue::ReplicaGroups(self.replica_groups()?),
            AttributeForm::IntLists => {
                AttributeValue::IntLists(self.list('{', '}', |cursor| cursor.list('{', '}', Cursor::int))?)
            }
            AttributeForm::Shape => AttributeValue::Shape(self.shape()?),
            AttributeForm::Shapes => AttributeValue::Shapes(self.list('{', '}', Cursor::shape)?),
            AttributeForm::Literal => {
                let shape = self.shape()?;
                let array = shape.as_array().ok_or("only array constants")?.clone();
                let zeros = ArrayLiteral::zeros(array).map_err(|error| error.to_string())?;
                AttributeValue::Literal(Literal::Array(zeros))
            }
            AttributeForm::Raw => {
                let braced = self.peek('{');
                let text = self.until(|c| c == if braced { '}' } else { ',' }).to_string();
                if braced {
                    self.expect("}")?;
                }
                AttributeValue::Raw(text)
            }
        })
    }

    fn slice(&mut self) -> Result<SliceDimension, String> {
        self.expect("[")?;
        let start = self.int()?;
        self.expect(":")?;
        let limit = self.int()?;
        let stride = if self.take(":") { self.int()? } else { 1 };
        self.expect("]")?;
        Ok(SliceDimension { start, limit, stride })
    }

    fn padding(&mut self) -> Result<Vec<PaddingDimension>, String> {
        let word = self.word();
        let entries = word.split('x').filter(|entry| !entry.is_empty());
        entries
            .map(|entry| match numbers(entry, '_')?[..] {
                [low, high] => Ok(PaddingDimension { low, high, interior: 0 }),
                [low, high, interior] => Ok(PaddingDimension { low, high, interior }),
                _ => Err(format!("`{entry}` is not a padding")),
            })
            .collect()
    }

    fn window(&mut self) -> Result<Vec<WindowDimension>, String> {
        let mut window: Vec<WindowDimension> = Vec::new();
        self.expect("{")?;
        while !self.take("}") {
            let key = self.word();
            self.expect("=")?;
            for (position, entry) in self.word().split('x').enumerate() {
                let values = numbers(entry, '_')?;
                if position >= window.len() {
                    window.push(WindowDimension::new(1));
                }
                let target = &mut window[position];
                match (key, values.as_slice()) {
                    ("size", &[size]) => target.size = size,
                    ("stride", &[stride]) => target.stride = stride,
                    ("pad", &[low, high]) => (target.padding_low, target.padding_high) = (low, high),
                    ("lhs_dilate", &[dilation]) => target.base_dilation = dilation,
                    ("rhs_dilate", &[dilation]) => target.window_dilation = dilation,
                    ("rhs_reversal", &[reversal]) => target.reversal = reversal != 0,
                    _ => return Err(format!("`{key}={entry}` is not of a window")),
                }
            }
        }
        Ok(window)
    }

    fn labels(&mut self) -> Result<ConvolutionDimensions, String> {
        let input = self.until(|c| c == '_');
        self.expect("_")?;
        let kernel = self.until(|c| c == '-');
        self.expect("->")?;
        let output = self.word();
        let place = |part: &str, label: char| part.find(label).map_or(-1, |position| position as i64);
        let spatial = |part: &str| (0..).map_while(|n| part.find(char::from_digit(n, 10)?)).map(|p| p as i64).collect();
        Ok(ConvolutionDimensions {
            input_batch: place(input, 'b'),
            input_feature: place(input, 'f'),
            input_spatial: spatial(input),
            kernel_input_feature: place(kernel, 'i'),
            kernel_output_feature: place(kernel, 'o'),
            kernel_spatial: spatial(kernel),
            output_batch: place(output, 'b'),
            output_feature: place(output, 'f'),
            output_spatial: spatial(output),
        })
    }

    fn replica_groups(&mut self) -> Result<ReplicaGroups, String> {
        if self.peek('{') {
            return Ok(ReplicaGroups::Explicit(self.list('{', '}', |cursor| cursor.list('{', '}', Cursor::int))?));
        }
        let dimensions = self.list('[', ']', Cursor::int)?;
        self.expect("<=")?;
        let reshape = self.list('[', ']', Cursor::int)?;
        let transpose = if self.take("T") { self.list('(', ')', Cursor::int)? } else { Vec::new() };
        Ok(ReplicaGroups::Iota { dimensions, reshape, transpose })
    }
}

fn numbers(text: &str, separator: char) -> Result<Vec<i64>, String> {
    text.split(separator).map(|number| number.parse().map_err(|_| format!("`{number}` is not an integer"))).collect()
}
