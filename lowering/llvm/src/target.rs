//! The machines that code is generated for.

use crate::Error;
use inkwell::{
    OptimizationLevel,
    targets::{CodeModel, RelocMode, TargetMachine, TargetTriple},
};
use llvm_sys::target::{
    LLVMInitializeNVPTXAsmPrinter, LLVMInitializeNVPTXTarget, LLVMInitializeNVPTXTargetInfo,
    LLVMInitializeNVPTXTargetMC, LLVMInitializeX86AsmPrinter, LLVMInitializeX86Target, LLVMInitializeX86TargetInfo,
    LLVMInitializeX86TargetMC,
};
use mlir_ext::llvm_translation;
use std::{
    ffi::{CStr, CString},
    ptr::NonNull,
    sync::{Arc, Mutex, Once, PoisonError},
};

/// Feature of CPUs that are not to be tuned for 256 bit.
const WHOLE_REGISTERS: &str = "-prefer-256-bit";

/// How much work the code generator spends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Effort {
    /// Fast instruction selection and register allocation; for functions that leave the work to others.
    Quick,
    /// Full instruction selection and scheduling.
    #[default]
    Full,
}

/// What code is generated for: a triple, a CPU and its features. Equal targets make equal objects from equal modules,
/// so a target is part of an object cache's key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    triple: String,
    cpu: String,
    features: String,
    effort: Effort,
}

impl Target {
    /// The CPU this process runs on, with all its features that the process may use.
    pub fn host() -> Self {
        initialize();
        let text = |bytes: &std::ffi::CStr| bytes.to_string_lossy().into_owned();
        // Not through `Display`, which would put quotes around it and so lose the first and last feature.
        let mut features = text(&TargetMachine::get_host_cpu_features());
        if !exec::host::permits_matrix_unit() {
            features = features.replace("+amx-", "-amx-");
        }
        Self::cpu(
            &text(TargetMachine::get_default_triple().as_str()),
            &text(&TargetMachine::get_host_cpu_name()),
            &features,
        )
    }

    /// A CPU by LLVM's names, with `features` as in `+avx2,-avx512f`.
    pub fn cpu(triple: &str, cpu: &str, features: &str) -> Self {
        let mut features = features.to_string();
        // Some AVX-512 CPUs are tuned for 256 bit; kernels here are written for whole registers.
        let has = |wanted: &str| features.split(',').any(|feature| feature == wanted);
        if has("+avx512f") && !has(WHOLE_REGISTERS) {
            features = format!("{features},{WHOLE_REGISTERS}");
        }
        Self { triple: triple.into(), cpu: cpu.into(), features, effort: Effort::Full }
    }

    /// An NVIDIA GPU such as `sm_90`, with a PTX version feature such as `+ptx80`.
    pub fn nvptx(chip: &str, features: &str) -> Self {
        Self { triple: "nvptx64-nvidia-cuda".into(), cpu: chip.into(), features: features.into(), effort: Effort::Full }
    }

    /// The same GPU with at least a version of PTX.
    pub(crate) fn with_ptx(mut self, least: u32) -> Self {
        let version = |entry: &str| entry.strip_prefix("+ptx").and_then(|version| version.parse::<u32>().ok());
        let given = self.features.split(',').filter_map(version).next_back();
        if given.or(least_ptx(&self.cpu)).is_none_or(|version| version < least) {
            let others = self.features.split(',').filter(|entry| !entry.is_empty() && version(entry).is_none());
            self.features = others.map(str::to_string).chain([format!("+ptx{least}")]).collect::<Vec<_>>().join(",");
        }
        self
    }

    /// The same target with another code generation effort.
    pub(crate) fn with_effort(mut self, effort: Effort) -> Self {
        self.effort = effort;
        self
    }

    /// The triple.
    pub fn triple(&self) -> &str {
        &self.triple
    }

    /// LLVM's name of the CPU.
    pub fn cpu_name(&self) -> &str {
        &self.cpu
    }

    /// LLVM's feature list.
    pub fn features(&self) -> &str {
        &self.features
    }

    /// Whether the feature list switches `feature` (without sign) on.
    pub fn has_feature(&self, feature: &str) -> bool {
        self.features
            .split(',')
            .rev()
            .find_map(|entry| match entry.split_at_checked(1) {
                Some((sign, name)) if name == feature => Some(sign == "+"),
                _ => None,
            })
            .unwrap_or(false)
    }

    /// Bits in the widest vector register that kernels should use: 512 with AVX-512, 256 with AVX2, else 128.
    pub fn vector_bits(&self) -> u32 {
        if self.has_feature("avx512f") && self.has_feature("avx512dq") {
            512
        } else if self.has_feature("avx2") {
            256
        } else {
            128
        }
    }

    /// Checks that LLVM knows the processor and its features: it would only warn, and make code for another.
    ///
    /// # Errors
    /// [`Error::Target`].
    pub fn check(&self) -> Result<(), Error> {
        let generic = Target { cpu: String::new(), features: String::new(), ..self.clone() }.new_machine()?;
        let machine = NonNull::new(generic.as_mut_ptr().cast());
        let knows = |name: &str, is_processor| {
            // SAFETY: the machine is live during the call.
            machine.is_some_and(|machine| unsafe { llvm_translation::target_knows(machine, name, is_processor) })
        };
        let failed = |reason: String| Err(Error::Target { triple: self.triple.clone(), cpu: self.cpu.clone(), reason });
        if !knows(&self.cpu, true) {
            let is_gpu = gpu_number(&self.cpu).is_some();
            let reason = match self.triple.starts_with("nvptx") {
                true => "LLVM knows no such processor; names are as sm_80, sm_90a and sm_100",
                false if is_gpu => "the code is for a CPU; a GPU is named with its platform, as in cuda:sm_80",
                false => "LLVM knows no such processor",
            };
            return failed(reason.to_string());
        }
        let capability = gpu_number(&self.cpu).and_then(|(_, number)| number.parse::<u32>().ok());
        if capability.is_some_and(|capability| capability < OLDEST_GPU) {
            return failed(format!("kernels are for sm_{OLDEST_GPU} and newer GPUs"));
        }
        for entry in self.features.split(',').filter(|entry| !entry.is_empty()) {
            match entry.strip_prefix(['+', '-']) {
                Some(name) if knows(name, false) => {}
                _ => return failed(format!("`{entry}` is no feature of it: they are written +name or -name")),
            }
            let version = entry.strip_prefix("+ptx").and_then(|version| version.parse::<u32>().ok());
            match (version, least_ptx(&self.cpu)) {
                (Some(version), Some(least)) if version < least => {
                    return failed(format!("`{entry}` does not know it: the first version that does is ptx{least}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A target machine for the caller alone: one that was used before, if there is any.
    pub(crate) fn machine(&self) -> Result<Arc<Machine>, Error> {
        let mut machines = MACHINES.lock().unwrap_or_else(PoisonError::into_inner);
        let unused = machines.iter().find(|(target, machine)| target == self && Arc::strong_count(machine) == 1);
        if let Some((_, machine)) = unused {
            return Ok(Arc::clone(machine));
        }
        let machine = Arc::new(Machine(self.new_machine()?));
        machines.push((self.clone(), Arc::clone(&machine)));
        Ok(machine)
    }

    fn new_machine(&self) -> Result<TargetMachine, Error> {
        initialize();
        let failed = |reason: String| Error::Target { triple: self.triple.clone(), cpu: self.cpu.clone(), reason };
        if [&self.triple, &self.cpu, &self.features].iter().any(|text| CString::new(text.as_bytes()).is_err()) {
            return Err(failed("a name contains a zero byte".into()));
        }
        let triple = TargetTriple::create(&self.triple);
        let target = inkwell::targets::Target::from_triple(&triple)
            .map_err(|reason| failed(reason.to_string_lossy().into_owned()))?;
        target
            .create_target_machine(
                &triple,
                &self.cpu,
                &self.features,
                match self.effort {
                    Effort::Quick => OptimizationLevel::None,
                    Effort::Full => OptimizationLevel::Default,
                },
                // Loaded code may lie anywhere, calls into the runtime go further than 2 GB.
                RelocMode::PIC,
                CodeModel::Default,
            )
            .ok_or_else(|| failed("LLVM refused it".into()))
    }
}

/// The oldest GPU that has what kernels use: copies into shared memory behind a thread's back, and products of matrices.
const OLDEST_GPU: u32 = 80;

/// The name of a GPU behind `sm_`, and the number in it, which a letter may follow.
fn gpu_number(chip: &str) -> Option<(&str, &str)> {
    let name = chip.strip_prefix("sm_")?;
    Some((name, name.trim_end_matches(|letter: char| letter.is_ascii_alphabetic())))
}

/// The first version of PTX that knows a GPU.
fn least_ptx(chip: &str) -> Option<u32> {
    let (name, number) = gpu_number(chip)?;
    let (_, version) = LEAST_PTX.iter().find(|(chip, _)| *chip == name || *chip == number)?;
    Some(*version)
}

/// GPUs with the first versions of PTX that know them; those of a name with a letter, where that is another one, come first.
const LEAST_PTX: [(&str, u32); 16] = [
    ("90a", 80),
    ("100f", 88),
    ("101f", 88),
    ("120f", 88),
    ("80", 70),
    ("86", 71),
    ("87", 74),
    ("88", 90),
    ("89", 78),
    ("90", 78),
    ("100", 86),
    ("101", 86),
    ("103", 88),
    ("110", 90),
    ("120", 87),
    ("121", 88),
];

/// All machines, each lent to one user at a time. A machine knows what its processor's features imply, which takes longer
/// to find out than to generate the code of a small program.
static MACHINES: Mutex<Vec<(Target, Arc<Machine>)>> = Mutex::new(Vec::new());

/// A target machine.
pub(crate) struct Machine(pub TargetMachine);

// SAFETY: a machine is tied to no thread.
unsafe impl Send for Machine {}
// SAFETY: the list of machines looks at none of them, and `Target::machine` lends each to one user.
unsafe impl Sync for Machine {}

/// What LLVM's code generator can only be told for a whole process, behind the name of the program.
const CODE_GENERATOR_OPTIONS: [&CStr; 8] = [
    c"halo",
    // Kernels come with explicit index arithmetic: loop strength reduction costs a fifth of code generation and gains
    // nothing.
    c"-disable-lsr",
    // Processors reorder what a second scheduling would. The others are for code that kernels do not have: chains of
    // comparisons, large immediates, calls of libc. Together a tenth of code generation.
    c"-disable-post-ra",
    c"-disable-mergeicmps",
    c"-disable-constant-hoisting",
    c"-disable-partial-libcall-inlining",
    // How a value is split around the blocks where its register is taken is looked for across this many blocks: enough for the
    // loops around a kernel's innermost one. Values that live through a whole kernel were a quarter of code generation.
    c"-grow-region-complexity-budget=10",
    // Innermost loops begin on a line of the caches of instructions and of decoded operations, 64 bytes: a loop of few
    // instructions that lies across two runs up to a third slower, and where it lies hangs on the code before it.
    c"-x86-experimental-pref-innermost-loop-alignment=6",
];

/// Registers the targets and sets the process-wide options, once.
fn initialize() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Not through inkwell, whose functions link the disassemblers and the readers of assembly too.
        // SAFETY: registration, which nothing else does meanwhile.
        unsafe {
            LLVMInitializeX86TargetInfo();
            LLVMInitializeX86Target();
            LLVMInitializeX86TargetMC();
            LLVMInitializeX86AsmPrinter();
            LLVMInitializeNVPTXTargetInfo();
            LLVMInitializeNVPTXTarget();
            LLVMInitializeNVPTXTargetMC();
            LLVMInitializeNVPTXAsmPrinter();
        }
        // SAFETY: zero-terminated arguments as announced; no other thread of this crate reaches LLVM before `call_once`
        // returns.
        unsafe {
            let arguments = CODE_GENERATOR_OPTIONS.map(CStr::as_ptr);
            llvm_sys::support::LLVMParseCommandLineOptions(
                arguments.len() as i32,
                arguments.as_ptr(),
                std::ptr::null(),
            );
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_entry_of_a_feature_counts() {
        let target = Target::cpu("x86_64-unknown-linux-gnu", "x86-64", "+avx2,+fma,-avx2");
        assert!(!target.has_feature("avx2"));
        assert!(target.has_feature("fma"));
        assert!(!target.has_feature("fm"));
        assert_eq!(target.vector_bits(), 128);
    }

    #[test]
    fn wide_registers_are_preferred_where_they_exist() {
        let target = Target::cpu("x86_64-unknown-linux-gnu", "sapphirerapids", "+avx2,+avx512f,+avx512dq");
        assert!(target.features().ends_with(",-prefer-256-bit"));
        assert_eq!(target.vector_bits(), 512);
    }

    #[test]
    fn the_host_has_a_machine_and_no_quotes() {
        let target = Target::host();
        assert!(!target.features().contains('"'));
        assert!(target.machine().is_ok());
    }

    #[test]
    fn unknown_processors_and_features_are_errors() {
        let triple = "x86_64-unknown-linux-gnu";
        assert_eq!(Target::cpu(triple, "x86-64-v3", "+avx2,+fma").check(), Ok(()));
        assert_eq!(Target::host().check(), Ok(()));
        assert_eq!(Target::nvptx("sm_80", "+ptx70").with_ptx(81).features(), "+ptx81");
        assert_eq!(Target::nvptx("sm_100", "").with_ptx(81).features(), "");
        for (chip, features) in [("sm_90", "+ptx80"), ("sm_90a", ""), ("sm_100", "+ptx86"), ("sm_120", "")] {
            assert_eq!(Target::nvptx(chip, features).check(), Ok(()));
        }
        for (target, words) in [
            (Target::cpu(triple, "z80", ""), "z80"),
            (Target::nvptx("sm_999", "+ptx80"), "sm_999"),
            (Target::nvptx("sm_100a", "+ptx80"), "ptx86"),
            (Target::nvptx("sm_75", "+ptx70"), "sm_80"),
            (Target::cpu(triple, "x86-64-v3", "+avx3"), "+avx3"),
            (Target::cpu(triple, "x86-64-v3", "avx2"), "`avx2`"),
        ] {
            let error = target.check().unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn an_unknown_triple_is_an_error() {
        let error = Target::cpu("pdp11-dec-unix", "", "").machine().err().expect("an error");
        assert!(error.to_string().contains("pdp11"), "{error}");
    }
}
