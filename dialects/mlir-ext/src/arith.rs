//! Shorthands of [`OpBuilder`] for the `arith`, `math`, `vector` and `func` operations on register values.
//!
//! Methods are named after the operation they create. Operands are scalars or one-dimensional vectors and agree in
//! lanes; the result has the lanes of the first operand.

pub use melior::dialect::arith::{CmpfPredicate, CmpiPredicate};
use melior::ir::attribute::{DenseI32ArrayAttribute, DenseI64ArrayAttribute, FlatSymbolRefAttribute};
use melior::ir::{Attribute, Type, TypeLike};

use crate::builder::{OpBuilder, Operation, Value};

macro_rules! same_type_operations {
    ($($method:ident($($operand:ident),+) = $name:literal;)*) => {
        $(
            #[doc = concat!("`", $name, "`: operands and result of one type.")]
            pub fn $method(&self, $($operand: Value<'c>),+) -> Value<'c> {
                let operands = [$($operand),+];
                self.value($name, &operands, operands[0].r#type(), &[])
            }
        )*
    };
}

macro_rules! casts {
    ($($method:ident = $name:literal;)*) => {
        $(
            #[doc = concat!("`", $name, "` to lanes of type `element`.")]
            pub fn $method(&self, value: Value<'c>, element: Type<'c>) -> Value<'c> {
                self.value($name, &[value], self.with_element_type(value.r#type(), element), &[])
            }
        )*
    };
}

impl<'c> OpBuilder<'c> {
    same_type_operations! {
        addi(a, b) = "arith.addi";
        subi(a, b) = "arith.subi";
        muli(a, b) = "arith.muli";
        divui(a, b) = "arith.divui";
        remui(a, b) = "arith.remui";
        maxsi(a, b) = "arith.maxsi";
        minsi(a, b) = "arith.minsi";
        andi(a, b) = "arith.andi";
        ori(a, b) = "arith.ori";
        xori(a, b) = "arith.xori";
        shli(a, b) = "arith.shli";
        shrsi(a, b) = "arith.shrsi";
        shrui(a, b) = "arith.shrui";
        addf(a, b) = "arith.addf";
        subf(a, b) = "arith.subf";
        mulf(a, b) = "arith.mulf";
        divf(a, b) = "arith.divf";
        negf(a) = "arith.negf";
        absf(a) = "math.absf";
        sqrt(a) = "math.sqrt";
        floor(a) = "math.floor";
        roundeven(a) = "math.roundeven";
        copysign(a, sign) = "math.copysign";
        fma(a, b, c) = "math.fma";
    }

    casts! {
        extsi = "arith.extsi";
        extui = "arith.extui";
        trunci = "arith.trunci";
        sitofp = "arith.sitofp";
        uitofp = "arith.uitofp";
        fptosi = "arith.fptosi";
        fptoui = "arith.fptoui";
        extf = "arith.extf";
        truncf = "arith.truncf";
        bitcast = "arith.bitcast";
    }

    /// Type with the lanes of `like` and another element type.
    pub fn with_element_type(&self, like: Type<'c>, element: Type<'c>) -> Type<'c> {
        match self.lanes_of(like) {
            Some(lanes) => self.vector_type(lanes, element),
            None => element,
        }
    }

    /// Integer constant of the type of `like`.
    pub fn integer_like(&self, like: Value<'c>, value: i64) -> Value<'c> {
        self.constant_integer(like.r#type(), value)
    }

    /// Float constant of the type of `like`; the value is rounded to it.
    pub fn float_like(&self, like: Value<'c>, value: f64) -> Value<'c> {
        self.constant_float(like.r#type(), value)
    }

    /// `arith.cmpi`.
    pub fn cmpi(&self, predicate: CmpiPredicate, a: Value<'c>, b: Value<'c>) -> Value<'c> {
        self.compare("arith.cmpi", predicate as i64, a, b)
    }

    /// `arith.cmpf`.
    pub fn cmpf(&self, predicate: CmpfPredicate, a: Value<'c>, b: Value<'c>) -> Value<'c> {
        self.compare("arith.cmpf", predicate as i64, a, b)
    }

    fn compare(&self, name: &str, predicate: i64, a: Value<'c>, b: Value<'c>) -> Value<'c> {
        let result = self.with_element_type(a.r#type(), self.integer_type(1));
        let predicate = self.integer_attribute(self.integer_type(64), predicate);
        self.value(name, &[a, b], result, &[("predicate", predicate)])
    }

    /// `arith.select`; a scalar condition may choose between vectors.
    pub fn select(&self, condition: Value<'c>, if_true: Value<'c>, if_false: Value<'c>) -> Value<'c> {
        self.value("arith.select", &[condition, if_true, if_false], if_true.r#type(), &[])
    }

    /// `vector.broadcast` of a scalar; the value itself when `lanes` is `None` or it is a vector already.
    pub fn broadcast(&self, value: Value<'c>, lanes: Option<u32>) -> Value<'c> {
        match lanes {
            Some(lanes) if !value.r#type().is_vector() => {
                self.value("vector.broadcast", &[value], self.vector_type(lanes, value.r#type()), &[])
            }
            _ => value,
        }
    }

    /// `vector.extract` of one lane of a vector.
    pub fn extract_lane(&self, vector: Value<'c>, lane: u32) -> Value<'c> {
        let position = DenseI64ArrayAttribute::new(self.context(), &[i64::from(lane)]).into();
        let element = self.element_type_of(vector.r#type());
        self.value("vector.extract", &[vector], element, &[("static_position", position)])
    }

    /// `vector.from_elements`: a vector of the given scalars, of which there is at least one.
    pub fn from_elements(&self, elements: &[Value<'c>]) -> Value<'c> {
        let r#type = self.vector_type(elements.len() as u32, elements[0].r#type());
        self.value("vector.from_elements", elements, r#type, &[])
    }

    /// `vector.shuffle`: lane `i` is lane `mask[i]` of `a` followed by `b`.
    pub fn shuffle(&self, a: Value<'c>, b: Value<'c>, mask: &[u32]) -> Value<'c> {
        let r#type = self.vector_type(mask.len() as u32, self.element_type_of(a.r#type()));
        let mask: Vec<i64> = mask.iter().map(|&lane| i64::from(lane)).collect();
        let mask: Attribute = DenseI64ArrayAttribute::new(self.context(), &mask).into();
        self.value("vector.shuffle", &[a, b], r#type, &[("mask", mask)])
    }

    /// `func.call` of a function by its symbol.
    pub fn call(&self, function: &str, operands: &[Value<'c>], results: &[Type<'c>]) -> Operation<'c> {
        let callee = FlatSymbolRefAttribute::new(self.context(), function).into();
        self.operation("func.call", operands, results, &[("callee", callee)], Vec::new())
    }

    /// `func.call` of a function with one result.
    pub fn call_value(&self, function: &str, operands: &[Value<'c>], result: Type<'c>) -> Value<'c> {
        let callee = FlatSymbolRefAttribute::new(self.context(), function).into();
        self.value("func.call", operands, result, &[("callee", callee)])
    }

    /// `llvm.call_intrinsic`, e.g. of `llvm.fshl.v8i32`.
    pub fn intrinsic(&self, name: &str, operands: &[Value<'c>], result: Type<'c>) -> Value<'c> {
        self.value("llvm.call_intrinsic", operands, result, &self.intrinsic_attributes(name, operands))
    }

    /// `llvm.call_intrinsic` of an intrinsic without a result.
    pub fn intrinsic_effect(&self, name: &str, operands: &[Value<'c>]) {
        self.effect("llvm.call_intrinsic", operands, &self.intrinsic_attributes(name, operands));
    }

    fn intrinsic_attributes(&self, name: &str, operands: &[Value<'c>]) -> [(&'static str, Attribute<'c>); 3] {
        [
            ("intrin", self.string_attribute(name)),
            ("operandSegmentSizes", DenseI32ArrayAttribute::new(self.context(), &[operands.len() as i32, 0]).into()),
            ("op_bundle_sizes", DenseI32ArrayAttribute::new(self.context(), &[]).into()),
        ]
    }
}
