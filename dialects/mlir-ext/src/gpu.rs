//! What the emitter of GPU kernels and the generator of their code agree upon: instructions that LLVM has no names for, and
//! where the memory is that the threads of a block share.

/// What the names of functions begin with that stand for instructions: the generator of PTX gives them bodies, an emulator
/// plays them.
pub const INSTRUCTION: &str = "halo.instruction.";

/// What a thread wrote into shared memory becomes visible to the units that read it by themselves.
pub const FENCE_FOR_UNITS: &str = "halo.instruction.fence.proxy.async.shared::cta";

/// What a thread made of barriers becomes visible to the units that use them by themselves.
pub const FENCE_FOR_BARRIERS: &str = "halo.instruction.fence.mbarrier_init.release.cluster";

/// Four warps that multiply have so many registers from here on, which others have given back: all of a block with two such groups
/// and a third one.
pub const MORE_REGISTERS: &str = "halo.instruction.setmaxnreg.inc.sync.aligned.u32 240";

/// Four warps that only ask for copies give registers back.
pub const FEWER_REGISTERS: &str = "halo.instruction.setmaxnreg.dec.sync.aligned.u32 24";

/// Makes a barrier at an address in shared memory, at which so many arrive in each phase.
pub const MAKE_BARRIER: &str = "halo.instruction.make_barrier";

/// Arrives at a barrier.
pub const ARRIVE: &str = "halo.instruction.arrive";

/// Arrives at a barrier, for a phase that ends when so many bytes have come, too.
pub const EXPECT_BYTES: &str = "halo.instruction.expect_bytes";

/// Waits until the phase of a barrier has ended whose number has a parity.
pub const WAIT_FOR_PHASE: &str = "halo.instruction.wait_for_phase";

/// What the host wrote at an address that describes boxes of an array becomes visible to the unit that copies these.
pub const ACQUIRE_BOXES: &str = "halo.instruction.acquire_boxes";

/// Has a box of an array copied: where to, by which description, from which element on, and the barrier at which its bytes arrive.
pub const COPY_BOX: &str = "halo.instruction.copy_box";

/// The text of instructions with operands, by their functions' names.
pub const TEXTS: [(&str, &str); 6] = [
    (ARRIVE, "mbarrier.arrive.shared::cta.b64 _, [$0];"),
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

/// The instruction by which four warps multiply matrices in shared memory (`wgmma`), several times.
///
/// Its function takes the left and the right operand of each product in turns, then the thread's sums, and gives these. An operand
/// is the descriptor of a matrix; a left one in registers is four words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarpGroupProduct {
    /// Shape and types, as in `m64n128k16.f32.bf16.bf16`.
    pub variant: String,
    /// How many products there are.
    pub parts: usize,
    /// Whether each operand lies across the contracted positions; none for types that cannot.
    pub across: Option<[bool; 2]>,
    /// Whether left operands are in registers.
    pub is_left_in_registers: bool,
    /// Whether there are no sums before: the function takes none.
    pub is_first: bool,
    /// Whether the sums are there only when a [`WarpGroupWait`] has given them.
    pub is_pending: bool,
}

/// What is behind the variant in names of [`WarpGroupProduct`]s with a left operand in registers, without sums, and pending.
const FLAGS: [&str; 3] = ["registers", "first", "pending"];

impl WarpGroupProduct {
    /// The name of its function.
    pub fn symbol(&self) -> String {
        let across = self.across.iter().flatten().map(|&own| if own { "1" } else { "0" });
        let flags = [self.is_left_in_registers, self.is_first, self.is_pending];
        let flags = FLAGS.into_iter().zip(flags).filter(|(_, is_set)| *is_set).map(|(name, _)| name);
        let rest: String = across.chain(flags).map(|part| format!("/{part}")).collect();
        format!("{WARP_GROUP_PRODUCT}{}/{}{rest}", self.variant, self.parts)
    }

    /// That of a function's name.
    pub fn of(symbol: &str) -> Option<Self> {
        let mut names = symbol.strip_prefix(WARP_GROUP_PRODUCT)?.split('/');
        let variant = names.next()?.to_string();
        let parts = names.next()?.parse().ok()?;
        let rest: Vec<&str> = names.collect();
        let across: Vec<bool> = rest.iter().filter(|part| !FLAGS.contains(part)).map(|&part| part == "1").collect();
        let [is_left_in_registers, is_first, is_pending] = FLAGS.map(|flag| rest.contains(&flag));
        let across = <[bool; 2]>::try_from(across).ok();
        Some(WarpGroupProduct { variant, parts, across, is_left_in_registers, is_first, is_pending })
    }

    /// Parameters for each product.
    pub fn parameters(&self) -> usize {
        if self.is_left_in_registers { LEFT_WORDS + 1 } else { 2 }
    }
}

/// Words of a left operand in registers.
pub const LEFT_WORDS: usize = 4;

/// What the name of a [`WarpGroupWait`] begins with.
const WARP_GROUP_WAIT: &str = "halo.instruction.wgmma_wait.";

/// Four warps wait until no more than some of their last [`WarpGroupProduct`]s are pending.
///
/// Its function takes sums that are there then, and gives them, and words that must be kept until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpGroupWait {
    /// Those that may still be pending.
    pub pending: u32,
    /// How many sums there are.
    pub sums: usize,
    /// How many words.
    pub words: usize,
    /// Whether the sums are integers, of 32 bits as the floats: functions of both have names of their own.
    pub are_integers: bool,
}

impl WarpGroupWait {
    /// The name of its function.
    pub fn symbol(&self) -> String {
        let Self { pending, sums, words, are_integers } = self;
        format!("{WARP_GROUP_WAIT}{pending}/{sums}/{words}/{}", u8::from(*are_integers))
    }

    /// That of a function's name.
    pub fn of(symbol: &str) -> Option<Self> {
        let mut numbers = symbol.strip_prefix(WARP_GROUP_WAIT)?.split('/').map(str::parse);
        let mut next = || numbers.next()?.ok();
        let (pending, sums, words, are_integers) = (next()?, next()?, next()?, next()?);
        Some(WarpGroupWait { pending: pending as u32, sums, words, are_integers: are_integers != 0 })
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
            for number in 0..8 {
                let [is_left_in_registers, is_first, is_pending] = [1, 2, 4].map(|flag| number & flag != 0);
                let (variant, parts) = (variant.clone(), number + 1);
                let product = WarpGroupProduct { variant, parts, across, is_left_in_registers, is_first, is_pending };
                assert_eq!(WarpGroupProduct::of(&product.symbol()), Some(product));
            }
        }
        let wait = WarpGroupWait { pending: 1, sums: 64, words: 32, are_integers: true };
        assert_eq!(WarpGroupWait::of(&wait.symbol()), Some(wait));
        assert_eq!(WarpGroupProduct::of(&wait.symbol()), None);
    }

    #[test]
    fn large_memory_is_given() {
        assert_eq!(given_shared_memory(&[48 << 10]), None);
        assert_eq!(given_shared_memory(&[48 << 10, 16]), Some((vec![0, 48 << 10], 49 << 10)));
    }
}
