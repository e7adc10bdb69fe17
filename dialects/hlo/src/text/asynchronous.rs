//! Asynchronous operations: the short form of XLA's text, and what the steps of one operation have in common.

use std::rc::Rc;

use crate::graph::{Computation, Instruction, InstructionId};
use crate::op_kind::OpKind;
use crate::ops;
use crate::ops::asynchronous::AsyncAttributes;
use crate::shape::Shape;

use crate::text::ast;
use crate::text::attributes;
use crate::text::error::Error;
use crate::text::import::{Importer, Made, check_unique, missing_shape, similar_opcode};

impl<'t> Importer<'t, '_> {
    /// XLA's short form of asynchronous operations: `add-start(a, b)` is `async-start(a, b)` of a computation that is
    /// one `add`; `add-update` and `add-done` are `async-update` and `async-done`.
    pub(super) fn asynchronous(
        &mut self,
        ast: &ast::InstructionNode<'t>,
        name: String,
        computation: &Computation,
        made: &mut Made,
    ) -> Result<Instruction, Error> {
        let source = self.source;
        let unknown = || Error::UnknownOpcode {
            at: source.location_of(ast.opcode),
            name: ast.opcode.to_string(),
            suggestion: similar_opcode(ast.opcode),
        };
        let (wrapped, step) = ast.opcode.rsplit_once('-').ok_or_else(unknown)?;
        let wrapped_kind: OpKind = wrapped.parse().map_err(|_| unknown())?;
        let kind = match step {
            "start" => OpKind::AsyncStart,
            "update" => OpKind::AsyncUpdate,
            "done" => OpKind::AsyncDone,
            _ => return Err(unknown()),
        };
        let definition = ops::definition(kind);
        let operands: Vec<_> = ast.operands.iter().map(|operand| InstructionId(operand.instruction)).collect();
        let position = self.position(ast.anchor());
        let mut instruction = Instruction { position, ..Instruction::new(name, kind, Shape::Token, operands) };
        let Some(shape) = &ast.shape else { return Err(missing_shape(source, ast)) };
        if kind != OpKind::AsyncStart {
            self.attributes(ast, definition, &mut instruction)?;
            self.check_start(ast, &instruction, computation, Some(wrapped_kind))?;
            return self.finish(ast, instruction, Some(shape), computation, None);
        }
        // The start's own attributes, and those of the operation it wraps.
        let (own, inner): (Vec<ast::Attribute<'t>>, Vec<ast::Attribute<'t>>) =
            ast.attributes.iter().partition(|attribute| definition.attribute(attribute.key).is_some());
        check_unique(source, &ast.attributes)?;
        for spec in definition.attributes.specs {
            if let Some(attribute) = own.iter().find(|attribute| attribute.key == spec.name) {
                instruction.attributes.set(spec.name, attributes::read(source, *attribute, spec.form)?);
            }
        }
        let Some([_, result, ..]) = shape.as_tuple() else {
            let reason = format!("`{}` gives a tuple of operands, result and context, got {shape}", ast.opcode);
            return Err(Error::Shape { at: source.location_of(ast.opcode), reason });
        };
        let mut body = Computation {
            name: self.unique(format!("async_{}", instruction.name)),
            instructions: Vec::new(),
            parameters: Vec::new(),
            root: InstructionId(ast.operands.len() as u32),
            annotations: Vec::new(),
        };
        for (number, operand) in instruction.operands.iter().enumerate() {
            body.parameters.push(InstructionId(number as u32));
            let shape = computation.get(*operand).shape.clone();
            let parameter = Instruction::parameter(format!("param_{number}"), shape, number);
            body.instructions.push(Instruction { position: instruction.position, ..parameter });
        }
        let root = ast::InstructionNode {
            name: "",
            shape: Some(Rc::new(result.clone())),
            opcode: wrapped,
            operands: (0u32..)
                .zip(&ast.operands)
                .map(|(number, operand)| ast::OperandNode { instruction: number, ..*operand })
                .collect(),
            payload: None,
            attributes: inner,
            called: ast.called.clone(),
            faulty: false,
        };
        let mut root = self.instruction(&root, wrapped_kind.text_name().to_string(), &body, made)?;
        instruction.annotations = std::mem::take(&mut root.annotations);
        body.instructions.push(root);
        instruction.computations.push(body);
        self.finish(ast, instruction, Some(shape), computation, None)
    }

    /// An update and a done are of the operation, the computation and the thread of their start.
    pub(super) fn check_start(
        &self,
        ast: &ast::InstructionNode<'t>,
        instruction: &Instruction,
        computation: &Computation,
        wrapped: Option<OpKind>,
    ) -> Result<(), Error> {
        let mut start = instruction;
        while let (OpKind::AsyncUpdate | OpKind::AsyncDone, &[earlier]) = (start.kind, &start.operands[..]) {
            start = computation.get(earlier);
        }
        let [body] = &start.computations[..] else { return Ok(()) };
        let started = body.root().kind;
        if let Some(wrapped) = wrapped.filter(|&wrapped| wrapped != started) {
            let (wrapped, started) = (wrapped.text_name(), started.text_name());
            let reason =
                format!("`{}` must be of the operation that was started, {started}, got {wrapped}", ast.opcode);
            return Err(Error::Computation { at: self.source.location_of(ast.opcode), reason });
        }
        let fault = |at: &str, key: &str, expected: &str| Error::Attribute {
            at: self.source.location_of(at),
            key: key.to_string(),
            expected: format!("that of the start, `{expected}`"),
            found: format!("`{at}`"),
        };
        if let Some(called) = ast.called.iter().find(|called| called.text != body.name && !called.text.starts_with('{'))
        {
            return Err(fault(called.text, called.key, &body.name));
        }
        let thread = |instruction: &Instruction| {
            let attributes = instruction.attributes::<AsyncAttributes<'_>>().ok()?;
            Some(attributes.async_execution_thread?.to_string())
        };
        let expected = thread(start).unwrap_or_else(|| "main".to_string());
        let key = "async_execution_thread";
        match ast.attributes.iter().find(|attribute| attribute.key == key) {
            Some(given) if thread(instruction).is_some_and(|thread| thread != expected) => {
                Err(fault(given.value, key, &expected))
            }
            _ => Ok(()),
        }
    }
}
