//! Attributes of an operation as one typed struct, from which its forms in text and in MLIR are derived.
//!
//! `attributes!` declares the struct beside the operation's shape rule: a field for each attribute, in the order of
//! XLA's text, with its Rust type and, where it may be absent, the value that it then has. It gives the
//! [`AttributeTable`] that the text reader, the writer and the MLIR bridge walk, the reading of an instruction's values
//! ([`OperationAttributes::read`]) and the values of an operation to be made (`Attributes::from`).
//!
//! A struct borrows lists, literals and texts from the instruction that it is read from, so reading one is cheap.

use super::OpError;
use super::enumerations::Precision;
use super::view::Label;
use crate::attributes::{
    AttributeForm, AttributeTable, AttributeValue, Attributes, ConvolutionDimensions, PaddingDimension, ReplicaGroups,
    SliceDimension, WindowDimension,
};
use crate::literal::Literal;
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// The attributes of one operation.
pub trait OperationAttributes<'a>: Copy + Into<Attributes> {
    /// The declarations of the fields.
    const TABLE: &'static AttributeTable;

    /// Reads the values of an instruction of kind `kind`, whose attributes these must be.
    ///
    /// # Errors
    /// For a required attribute that is absent and a value of the wrong form or outside of a closed set.
    fn read(kind: OpKind, attributes: &'a Attributes) -> Result<Self, OpError>;
}

/// A Rust type of an attribute.
pub trait AttributeType<'a>: Copy {
    /// Its form in text.
    const FORM: AttributeForm;

    /// The value as this type; otherwise what is wrong with it, to be read after the attribute's name.
    fn from_value(value: &'a AttributeValue) -> Result<Self, String>;

    /// The value as it is kept; `None` where the attribute is absent.
    fn to_value(self) -> Option<AttributeValue>;
}

pub(super) fn wrong_form(expected: AttributeForm, found: &AttributeValue) -> String {
    format!("must be of form {expected:?}, got {:?}", found.form())
}

/// `owned type => borrowed type: variant`, with the conversion of the borrowed one.
macro_rules! attribute_types {
    ($($type:ty: $variant:ident, |$stored:ident| $borrow:expr, |$value:ident| $keep:expr;)*) => {
        $(
            impl<'a> AttributeType<'a> for $type {
                const FORM: AttributeForm = AttributeForm::$variant;

                fn from_value(value: &'a AttributeValue) -> Result<Self, String> {
                    match value {
                        AttributeValue::$variant($stored) => Ok($borrow),
                        _ => Err(wrong_form(Self::FORM, value)),
                    }
                }

                fn to_value(self) -> Option<AttributeValue> {
                    let $value = self;
                    Some(AttributeValue::$variant($keep))
                }
            }
        )*
    };
}

attribute_types! {
    i64: Int, |stored| *stored, |value| value;
    bool: Bool, |stored| *stored, |value| value;
    f64: Float, |stored| *stored, |value| value;
    &'a [i64]: Ints, |stored| stored, |value| value.to_vec();
    &'a [Vec<i64>]: IntLists, |stored| stored, |value| value.to_vec();
    &'a [WindowDimension]: Window, |stored| stored, |value| value.to_vec();
    &'a [SliceDimension]: Slice, |stored| stored, |value| value.to_vec();
    &'a [PaddingDimension]: Padding, |stored| stored, |value| value.to_vec();
    &'a [Shape]: Shapes, |stored| stored, |value| value.to_vec();
    &'a ConvolutionDimensions: ConvolutionDimensions, |stored| stored, |value| value.clone();
    &'a ReplicaGroups: ReplicaGroups, |stored| stored, |value| value.clone();
    &'a Shape: Shape, |stored| stored, |value| value.clone();
    &'a Literal: Literal, |stored| stored, |value| value.clone();
    &'a str: String, |stored| stored, |value| value.to_string();
    Word<'a>: Word, |stored| Word(stored), |value| value.0.to_string();
    Raw<'a>: Raw, |stored| Raw(stored), |value| value.0.to_string();
}

/// A bare word that halo does not interpret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'a>(pub &'a str);

/// A value that halo does not interpret, as the text has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw<'a>(pub &'a str);

/// The one dimension that a list must name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension(pub i64);

impl Dimension {
    /// The number of a dimension of a verified operation, as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl<'a> AttributeType<'a> for Dimension {
    const FORM: AttributeForm = AttributeForm::Ints;

    fn from_value(value: &'a AttributeValue) -> Result<Self, String> {
        match <&[i64]>::from_value(value)? {
            &[dimension] => Ok(Dimension(dimension)),
            dimensions => Err(format!("must name one dimension, got {dimensions:?}")),
        }
    }

    fn to_value(self) -> Option<AttributeValue> {
        Some(AttributeValue::Ints(vec![self.0]))
    }
}

/// Precisions by operand; none stands for [`Precision::Default`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precisions<'a>(&'a [String]);

impl Precisions<'_> {
    /// The default for every operand.
    pub const DEFAULT: Precisions<'static> = Precisions(&[]);

    /// The precisions by operand.
    pub fn iter(&self) -> impl Iterator<Item = Precision> {
        self.0.iter().filter_map(|word| word.parse().ok())
    }

    /// Whether the program asks for no more than the usual precision of any operand.
    pub fn are_default(&self) -> bool {
        self.iter().all(|own| own == Precision::Default)
    }
}

impl<'a> AttributeType<'a> for Precisions<'a> {
    const FORM: AttributeForm = AttributeForm::Words;

    fn from_value(value: &'a AttributeValue) -> Result<Self, String> {
        let AttributeValue::Words(words) = value else {
            return Err(wrong_form(Self::FORM, value));
        };
        for word in words {
            word.parse::<Precision>().map_err(|error| error.to_string())?;
        }
        Ok(Precisions(words))
    }

    fn to_value(self) -> Option<AttributeValue> {
        Some(AttributeValue::Words(self.0.to_vec()))
    }
}

impl<'a, T: AttributeType<'a>> AttributeType<'a> for Option<T> {
    const FORM: AttributeForm = T::FORM;

    fn from_value(value: &'a AttributeValue) -> Result<Self, String> {
        T::from_value(value).map(Some)
    }

    fn to_value(self) -> Option<AttributeValue> {
        self.and_then(T::to_value)
    }
}

/// Value of an attribute that must be there.
pub(super) fn required<'a, T: AttributeType<'a>>(
    kind: OpKind,
    attributes: &'a Attributes,
    name: &'static str,
    label: Label,
) -> Result<T, OpError> {
    optional(kind, attributes, name, label)?.ok_or_else(|| OpError {
        kind,
        label: None,
        message: format!("attribute `{name}` is missing"),
        attribute: None,
        operand: None,
        computation: None,
    })
}

/// Value of an attribute, if it is there.
pub(super) fn optional<'a, T: AttributeType<'a>>(
    kind: OpKind,
    attributes: &'a Attributes,
    name: &'static str,
    label: Label,
) -> Result<Option<T>, OpError> {
    attributes.get(name).map(T::from_value).transpose().map_err(|message| OpError {
        kind,
        label,
        message: format!("{name} {message}"),
        attribute: Some(name),
        operand: None,
        computation: None,
    })
}

/// Name of a field in text: without the `r#` of one that is a Rust keyword.
pub(super) const fn text_name(field: &'static str) -> &'static str {
    match field.as_bytes() {
        [b'r', b'#', ..] => field.split_at(2).1,
        _ => field,
    }
}

/// Reads the attributes of an instruction as those of its operation.
///
/// # Errors
/// As [`OperationAttributes::read`], and where `T` has the attributes of another operation.
pub fn typed<'a, T: OperationAttributes<'a>>(kind: OpKind, attributes: &'a Attributes) -> Result<T, OpError> {
    let declared = super::definition(kind).attributes;
    if declared.owner == T::TABLE.owner {
        return T::read(kind, attributes);
    }
    let message = format!("has {}, not {}", declared.owner, T::TABLE.owner);
    Err(OpError { kind, label: None, message, attribute: None, operand: None, computation: None })
}

/// Declares the attributes of an operation:
///
/// ```text
/// attributes! {
///     /// Attributes of `compare`.
///     pub struct CompareAttributes {
///         /// The relation.
///         required direction ["C3"]: ComparisonDirection,
///         /// The order; that of the element type where absent.
///         optional r#type ["C4"]: Option<ComparisonType> = None,
///     }
/// }
/// ```
///
/// - `required`: an operation without it is invalid.
/// - `optional`: has the value behind `=` where it is absent, and is left out where it has that value.
/// - `written`: has the value behind `=` where it is absent, and is always written.
///
/// The label in brackets is that of the constraint that a value outside of the type's values breaks.
/// `new` takes the required attributes and gives the others their defaults.
macro_rules! attributes {
    ($(#[$meta:meta])* pub struct $name:ident<$life:lifetime> { $($body:tt)* }) => {
        $crate::ops::typed_attributes::attributes! {
            @fields { [$(#[$meta])*] $name $life [<$life>] } [] [] [] $($body)*
        }
    };
    ($(#[$meta:meta])* pub struct $name:ident { $($body:tt)* }) => {
        $crate::ops::typed_attributes::attributes! { @fields { [$(#[$meta])*] $name 'a [] } [] [] [] $($body)* }
    };
    (
        @fields $head:tt [$($fields:tt)*] [$($required:tt)*] [$($default:tt)*]
        $(#[$meta:meta])* required $field:ident $([$label:literal])?: $type:ty, $($rest:tt)*
    ) => {
        $crate::ops::typed_attributes::attributes! {
            @fields $head
            [$($fields)* { [$(#[$meta])*] required $field [$($label)?] [$type] [] }]
            [$($required)* { $field $type }]
            [$($default)*]
            $($rest)*
        }
    };
    (
        @fields $head:tt [$($fields:tt)*] $required:tt [$($defaults:tt)*]
        $(#[$meta:meta])* $presence:ident $field:ident $([$label:literal])?: $type:ty = $default:expr, $($rest:tt)*
    ) => {
        $crate::ops::typed_attributes::attributes! {
            @fields $head
            [$($fields)* { [$(#[$meta])*] $presence $field [$($label)?] [$type] [$default] }]
            $required
            [$($defaults)* { $field $default }]
            $($rest)*
        }
    };
    (
        @fields { [$($struct_meta:tt)*] $name:ident $life:lifetime [$($generics:tt)*] }
        [$({ [$($meta:tt)*] $presence:ident $field:ident [$($label:literal)?] [$type:ty] [$($default:expr)?] })*]
        [$({ $required:ident $required_type:ty })*]
        [$({ $defaulted:ident $value:expr })*]
    ) => {
        $($struct_meta)*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name $($generics)* {
            $($($meta)* pub $field: $type,)*
        }

        impl $($generics)* $name $($generics)* {
            /// These required attributes; the others have their defaults.
            #[allow(clippy::new_without_default)]
            pub fn new($($required: $required_type),*) -> Self {
                $name { $($required,)* $($defaulted: $value,)* }
            }
        }

        impl<$life> $crate::ops::typed_attributes::OperationAttributes<$life> for $name $($generics)* {
            const TABLE: &'static $crate::attributes::AttributeTable = &$crate::attributes::AttributeTable {
                owner: stringify!($name),
                specs: &[$($crate::attributes::AttributeSpec {
                    name: $crate::ops::typed_attributes::text_name(stringify!($field)),
                    form: <$type as $crate::ops::typed_attributes::AttributeType>::FORM,
                    required: $crate::ops::typed_attributes::attributes!(@is_required $presence),
                }),*],
                check: |kind, attributes| {
                    <$name as $crate::ops::typed_attributes::OperationAttributes>::read(kind, attributes).map(drop)
                },
            };

            #[allow(unused_variables)]
            fn read(
                kind: $crate::op_kind::OpKind,
                attributes: &$life $crate::attributes::Attributes,
            ) -> Result<Self, $crate::ops::OpError> {
                Ok($name {
                    $($field: $crate::ops::typed_attributes::attributes!(
                        @read $presence kind attributes $field [$($label)?] [$($default)?]
                    ),)*
                })
            }
        }

        impl $($generics)* From<$name $($generics)*> for $crate::attributes::Attributes {
            #[allow(unused_variables, unused_mut)]
            fn from(typed: $name $($generics)*) -> Self {
                let mut attributes = $crate::attributes::Attributes::new();
                $(
                    if $crate::ops::typed_attributes::attributes!(@is_kept $presence typed $field [$($default)?]) {
                        attributes.extend(
                            $crate::ops::typed_attributes::text_name(stringify!($field)),
                            $crate::ops::typed_attributes::AttributeType::to_value(typed.$field),
                        );
                    }
                )*
                attributes
            }
        }
    };
    (@is_required required) => { true };
    (@is_required optional) => { false };
    (@is_required written) => { false };
    (@is_kept required $typed:ident $field:ident []) => { true };
    (@is_kept optional $typed:ident $field:ident [$default:expr]) => { $typed.$field != $default };
    (@is_kept written $typed:ident $field:ident [$default:expr]) => { true };
    (@read required $kind:ident $attributes:ident $field:ident [$($label:literal)?] []) => {
        $crate::ops::typed_attributes::required(
            $kind,
            $attributes,
            $crate::ops::typed_attributes::text_name(stringify!($field)),
            $crate::ops::typed_attributes::attributes!(@label $($label)?),
        )?
    };
    (@read $presence:ident $kind:ident $attributes:ident $field:ident [$($label:literal)?] [$default:expr]) => {
        match $crate::ops::typed_attributes::optional(
            $kind,
            $attributes,
            $crate::ops::typed_attributes::text_name(stringify!($field)),
            $crate::ops::typed_attributes::attributes!(@label $($label)?),
        )? {
            Some(value) => value,
            None => $default,
        }
    };
    (@label) => { None };
    (@label $label:literal) => { Some($label) };
}

pub(crate) use attributes;

attributes! {
    /// Attributes of an operation that has none.
    pub struct NoAttributes {}
}
