//! What the emitter of GPU kernels and the generator of their code agree upon: instructions that LLVM has no names for, and
//! where the memory is that the threads of a block share.

/// What the names of functions begin with that stand for instructions: the generator of PTX gives them bodies, an emulator
/// plays them.
pub const INSTRUCTION: &str = "halo.instruction.";

/// What a thread wrote into shared memory becomes visible to the units that read it by themselves.
pub const FENCE_FOR_UNITS: &str = "halo.instruction.fence.proxy.async.shared::cta";

/// What a thread made of barriers becomes visible to the units that use them by themselves.
pub const FENCE_FOR_BARRIERS: &str = "halo.instruction.fence.mbarrier_init.release.cluster";

/// Makes a barrier at an address in shared memory, at which so many arrive in each phase.
pub const MAKE_BARRIER: &str = "halo.instruction.make_barrier";

/// Arrives at a barrier, for a phase that ends when so many bytes have come, too.
pub const EXPECT_BYTES: &str = "halo.instruction.expect_bytes";

/// Waits until the phase of a barrier has ended whose number has a parity.
pub const WAIT_FOR_PHASE: &str = "halo.instruction.wait_for_phase";

/// What the host wrote at an address that describes boxes of an array becomes visible to the unit that copies these.
pub const ACQUIRE_BOXES: &str = "halo.instruction.acquire_boxes";

/// Has a box of an array copied: where to, by which description, from which element on, and the barrier at which its bytes arrive.
pub const COPY_BOX: &str = "halo.instruction.copy_box";

/// The text of instructions with operands, by their functions' names.
pub const TEXTS: [(&str, &str); 5] = [
    (MAKE_BARRIER, "mbarrier.init.shared::cta.b64 [$0], $1;"),
    (EXPECT_BYTES, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;"),
    (
        WAIT_FOR_PHASE,
        "{\n.reg .pred ended;\nwaits:\nmbarrier.try_wait.parity.shared::cta.b64 ended, [$0], $1;\n@!ended bra waits;\n}",
    ),
    (ACQUIRE_BOXES, "fence.proxy.tensormap::generic.acquire.sys [$0], 128;"),
    (
        COPY_BOX,
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1, {$2, $3, $4}], [$5];",
    ),
];

/// What the name of a [`WarpGroupProduct`] begins with.
pub const WARP_GROUP_PRODUCT: &str = "halo.instruction.wgmma.";

/// The instruction by which four warps multiply matrices in shared memory (`wgmma`), several times, until the sums are there.
///
/// Its function takes the descriptors of a left and a right matrix in turns, then the thread's sums, and gives these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarpGroupProduct {
    /// Shape and types, as in `m64n128k16.f32.bf16.bf16`.
    pub variant: String,
    /// Whether each operand lies across the contracted positions; none for types that cannot.
    pub across: Option<[bool; 2]>,
}

impl WarpGroupProduct {
    /// The name of its function.
    pub fn symbol(&self) -> String {
        let across = self.across.map(|across| across.map(|own| format!("/{}", u8::from(own))).concat());
        format!("{WARP_GROUP_PRODUCT}{}{}", self.variant, across.unwrap_or_default())
    }

    /// That of a function's name.
    pub fn of(symbol: &str) -> Option<Self> {
        let mut parts = symbol.strip_prefix(WARP_GROUP_PRODUCT)?.split('/');
        let variant = parts.next()?.to_string();
        let across = parts.map(|part| part == "1").collect::<Vec<_>>();
        Some(WarpGroupProduct { variant, across: <[bool; 2]>::try_from(across).ok() })
    }
}

/// Bytes of shared memory that a kernel may name by itself; what is more is given to it with its launch.
const OWN_SHARED_BYTES: u64 = 48 << 10;

/// Arrays in shared memory that is given with a launch begin at multiples of so many bytes.
pub const SHARED_ALIGNMENT: u64 = 1024;

/// Where arrays of some sizes are in the shared memory that is given with a launch, and its size; nothing for those that
/// their kernel names by itself.
pub fn given_shared_memory(sizes: &[u64]) -> Option<(Vec<u64>, u64)> {
    if sizes.iter().sum::<u64>() <= OWN_SHARED_BYTES {
        return None;
    }
    let mut end = 0;
    let places = sizes.iter().map(|size| {
        let place = end;
        end += size.next_multiple_of(SHARED_ALIGNMENT);
        place
    });
    let places = places.collect();
    Some((places, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_have_names() {
        let variant = "m64n128k16.f32.bf16.bf16".to_string();
        for across in [None, Some([true, false]), Some([false, true])] {
            let product = WarpGroupProduct { variant: variant.clone(), across };
            assert_eq!(WarpGroupProduct::of(&product.symbol()), Some(product));
        }
    }

    #[test]
    fn large_memory_is_given() {
        assert_eq!(given_shared_memory(&[48 << 10]), None);
        assert_eq!(given_shared_memory(&[48 << 10, 16]), Some((vec![0, 48 << 10], 49 << 10)));
    }
}
