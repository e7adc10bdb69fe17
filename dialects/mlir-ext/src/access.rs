//! Index arithmetic and memory accesses of the dialect `affine` with [`OpBuilder`].

use melior::ir::{AffineMap, Attribute, AttributeLike, Type, TypeLike};
use mlir_sys::{mlirAffineMapAttrGet, mlirAffineMapAttrGetValue, mlirAttributeIsAAffineMap};

use crate::affine::Expr;
use crate::builder::{OpBuilder, Value};

/// An affine map with the values of its dimensions and, after them, of its symbols.
#[derive(Clone, Debug)]
pub struct AffineValues<'c> {
    /// The map.
    pub map: AffineMap<'c>,
    /// As many values of type `index` as the map has dimensions and symbols.
    pub operands: Vec<Value<'c>>,
}

impl<'c> AffineValues<'c> {
    /// A constant.
    pub fn constant(builder: &OpBuilder<'c>, value: i64) -> Self {
        let expression = Expr::constant(builder.context(), value);
        AffineValues { map: crate::affine::map(builder.context(), 0, 0, &[expression]), operands: Vec::new() }
    }
}

/// The map of an attribute; `None` for one of another kind.
pub fn map_of(attribute: Attribute<'_>) -> Option<AffineMap<'_>> {
    // SAFETY: the attribute is live, and asked for its map only if it has one.
    unsafe {
        mlirAttributeIsAAffineMap(attribute.to_raw())
            .then(|| AffineMap::from_raw(mlirAffineMapAttrGetValue(attribute.to_raw())))
    }
}

/// A map as an attribute.
pub(crate) fn map_attribute(map: AffineMap<'_>) -> Attribute<'_> {
    // SAFETY: the map is live as long as its context.
    unsafe { Attribute::from_raw(mlirAffineMapAttrGet(map.to_raw())) }
}

impl<'c> OpBuilder<'c> {
    /// `affine.apply` of a map with one result.
    pub fn affine_apply(&self, values: &AffineValues<'c>) -> Value<'c> {
        self.value("affine.apply", &values.operands, self.index_type, &[("map", map_attribute(values.map))])
    }

    /// `affine.min`: the smallest of a map's results.
    pub fn affine_min(&self, values: &AffineValues<'c>) -> Value<'c> {
        self.value("affine.min", &values.operands, self.index_type, &[("map", map_attribute(values.map))])
    }

    /// `affine.max`: the largest of a map's results.
    pub fn affine_max(&self, values: &AffineValues<'c>) -> Value<'c> {
        self.value("affine.max", &values.operands, self.index_type, &[("map", map_attribute(values.map))])
    }

    /// `affine.load`, or `affine.vector_load` where the result is a vector.
    pub fn affine_load(&self, memref: Value<'c>, place: &AffineValues<'c>, r#type: Type<'c>) -> Value<'c> {
        let name = if r#type.is_vector() { "affine.vector_load" } else { "affine.load" };
        let operands = [&[memref], &place.operands[..]].concat();
        self.value(name, &operands, r#type, &[("map", map_attribute(place.map))])
    }

    /// `affine.store`, or `affine.vector_store` of a vector.
    pub fn affine_store(&self, value: Value<'c>, memref: Value<'c>, place: &AffineValues<'c>) {
        let name = if value.r#type().is_vector() { "affine.vector_store" } else { "affine.store" };
        let operands = [&[value, memref], &place.operands[..]].concat();
        self.effect(name, &operands, &[("map", map_attribute(place.map))]);
    }

    /// `memref.load`, or `vector.load` where the result is a vector.
    pub fn plain_load(&self, memref: Value<'c>, place: &[Value<'c>], r#type: Type<'c>) -> Value<'c> {
        let name = if r#type.is_vector() { "vector.load" } else { "memref.load" };
        self.value(name, &[&[memref], place].concat(), r#type, &[])
    }

    /// `memref.store`, or `vector.store` of a vector.
    pub fn plain_store(&self, value: Value<'c>, memref: Value<'c>, place: &[Value<'c>]) {
        let name = if value.r#type().is_vector() { "vector.store" } else { "memref.store" };
        self.effect(name, &[&[value, memref], place].concat(), &[]);
    }
}
