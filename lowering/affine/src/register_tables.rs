//! Lookups among some elements next to each other, which a few registers hold: a permutation finds those of all lanes at once,
//! where a gather takes as long as a load for each.

use indexing::{Expr, Interval, Linear};
use mlir_ext::arith::CmpiPredicate;
use mlir_ext::builder::{OpBuilder, Value};

use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::math::parts::in_parts;
use crate::memory::ArrayRef;
use crate::scalar;

type Result<T> = std::result::Result<T, LoweringError>;

/// Registers that hold a table at most, where there are 32 and where there are 16.
const MOST_WIDE_REGISTERS: i64 = 4;
const MOST_REGISTERS: i64 = 2;

/// Lanes of a register that is permuted for fewer lanes too.
const LANES_OF_FEW: u32 = 8;

/// An instruction that permutes the lanes of a register.
struct Permutation {
    /// It takes the register and, in another, the lane that each lane gets.
    name: &'static str,
    lanes: u32,
    bits: u32,
    /// Registers that hold a table at most.
    most: i64,
}

impl Permutation {
    /// One that so many lanes of so many bits are a whole number of registers for, in which small elements are widened.
    fn of(builder: &OpBuilder<'_>, lanes: u32, bits: u32) -> Option<Self> {
        let (machine, bits) = (builder.machine(), bits.max(32));
        let [wide, narrow] =
            [(MOST_WIDE_REGISTERS, machine.scales_vectors), (MOST_REGISTERS, machine.word_dot_products)];
        let all = [
            (wide, "llvm.x86.avx512.permvar.si.512", 16, 32),
            (wide, "llvm.x86.avx512.permvar.di.512", 8, 64),
            (narrow, "llvm.x86.avx2.permd", 8, 32),
        ];
        let found = all.into_iter().find(|&((_, is_there), _, own_lanes, own_bits)| {
            is_there && own_bits == bits && lanes.is_power_of_two() && (lanes >= own_lanes || own_lanes <= LANES_OF_FEW)
        });
        found.map(|((most, _), name, lanes, bits)| Permutation { name, lanes, bits, most })
    }
}

impl<'c> Elemental<'_, 'c> {
    /// The elements of the lanes as memory holds them, if they are among few that registers hold.
    pub(crate) fn look_up_in_registers(
        &mut self,
        array: &ArrayRef<'c>,
        address: Expr<'c>,
    ) -> Result<Option<Value<'c>>> {
        let (builder, context) = (self.builder, self.scope.context());
        let own_bits = 8 * array.element_type.byte_width() as u32;
        let Some(lanes) = self.scope.lanes().filter(|_| array.parts() == 1) else { return Ok(None) };
        let Some(permutation) = Permutation::of(builder, lanes, own_bits) else { return Ok(None) };
        let Some(sum) = Linear::from_expr(address) else { return Ok(None) };
        let (varying, uniform) = sum.terms.into_iter().partition(|&(atom, _)| self.scope.uses_lane(atom));
        let varying = Linear { terms: varying, constant: 0 }.to_expr(context);
        let uniform = Linear { terms: uniform, constant: sum.constant }.to_expr(context);
        let (width, places) = (i64::from(permutation.lanes), self.scope.range(varying));
        let size = places.upper.saturating_sub(places.lower).saturating_add(1);
        // All of them must be there, also those that no lane reads.
        let first = self.scope.simplify(uniform + places.lower);
        let (firsts, elements) = (self.scope.range(first), array.dimensions.iter().product::<i64>());
        let is_table = (2..=permutation.most * width).contains(&size);
        if !is_table || firsts.lower < 0 || firsts.upper.saturating_add(size) > elements {
            return Ok(None);
        }
        let integer = builder.integer_type(permutation.bits);
        let mut registers = Vec::new();
        for begin in (0..size).step_by(permutation.lanes as usize) {
            let offsets: Vec<i64> = (begin..begin + width).map(|offset| offset.min(size - 1)).collect();
            let span = Interval::new(begin, (begin + width).min(size) - 1);
            let stored = self.load_near(array, first, &offsets, span)?;
            let own = builder.vector_type(permutation.lanes, builder.integer_type(own_bits));
            let stored = builder.value("vector.bitcast", &[stored], own, &[]);
            registers.push(match own_bits < permutation.bits {
                true => builder.extui(stored, integer),
                false => stored,
            });
        }
        let place = self.scope.lane_values(builder, self.scope.simplify(varying - places.lower), integer)?;
        let first_lanes = |vector: Value<'c>, of: u32, count: u32| {
            let lanes: Vec<u32> = (0..count).map(|lane| lane % of).collect();
            builder.shuffle(vector, vector, &lanes)
        };
        let found = if lanes < permutation.lanes {
            let places = first_lanes(place, lanes, permutation.lanes);
            let found = permuted(builder, &permutation, &registers, places);
            first_lanes(found, lanes, lanes)
        } else {
            in_parts(builder, permutation.lanes, &[place], |places| {
                permuted(builder, &permutation, &registers, places[0])
            })
        };
        let found = match own_bits < permutation.bits {
            true => builder.trunci(found, builder.integer_type(own_bits)),
            false => found,
        };
        let stored = scalar::load_type(builder, array.element_type, Some(lanes));
        Ok(Some(builder.value("vector.bitcast", &[found], stored, &[])))
    }
}

/// What a table in registers has at some places.
fn permuted<'c>(
    builder: &OpBuilder<'c>,
    permutation: &Permutation,
    registers: &[Value<'c>],
    places: Value<'c>,
) -> Value<'c> {
    let of_register =
        |&register: &Value<'c>| builder.intrinsic(permutation.name, &[register, places], register.r#type());
    let mut found = of_register(&registers[0]);
    for (number, register) in (1..).zip(&registers[1..]) {
        let begin = builder.integer_like(places, number * i64::from(permutation.lanes));
        let is_here = builder.cmpi(CmpiPredicate::Sge, places, begin);
        found = builder.select(is_here, of_register(register), found);
    }
    found
}
