//! Compiling programs for a device: what the feature `compiler` adds to [`Client`].

use std::time::Instant;

use hlo::graph::Module;
use hlo::literal::Literal;
use lowering_affine::to_gpu;
use lowering_llvm::{CodeGenerationOptions, Target, emulation, generate_code, nvptx, ptxas};
use melior::Context;

use crate::cache::Key;
use crate::client::{Client, Platform};
use crate::error::Error;
use crate::executable::{CompileTimings, Executable, Machine, Origin, Program};
use crate::pipeline::{self, CompileOptions, CompilePipeline};
use crate::source::Source;

impl Client {
    /// The target that code is made for.
    pub fn target(&self) -> &Target {
        &self.inner.target
    }

    /// Compiles a module, HLO text, or a file.
    ///
    /// # Errors
    /// For invalid programs, operations without a lowering, constants without a value, and programs for more devices.
    pub fn compile<'a>(&self, source: impl Into<Source<'a>>, options: &CompileOptions) -> Result<Executable, Error> {
        let module = source.into().module()?;
        let (needed, devices) = (hlo::devices::devices_of(&module), self.devices());
        if needed > devices {
            return Err(Error::TooFewDevices { needed, devices });
        }
        // The lines of a program are no part of what it is kept under.
        let cache = self.inner.cache.as_ref().filter(|_| options.debug_info.is_none());
        let Some(cache) = cache else { return self.compile_module(&module, options) };
        let key = Key::new(&module, options, &self.inner.target, self);
        if let Some(bytes) = cache.get(&key) {
            // SAFETY: the cache's folder holds what this function wrote, see `CompilationCache::new`.
            match unsafe { self.deserialize(&bytes) } {
                Ok(executable) => return Ok(executable),
                Err(_) => cache.remove(&key),
            }
        }
        let executable = self.compile_module(&module, options)?;
        cache.put(&key, &executable.serialize());
        Ok(executable)
    }

    fn compile_module(&self, module: &Module, options: &CompileOptions) -> Result<Executable, Error> {
        let start = Instant::now();
        self.inner.contexts.with_context(module, |context| {
            let timings = CompileTimings { context: start.elapsed(), ..CompileTimings::default() };
            self.compile_in(context, module, options, timings)
        })
    }

    fn compile_in(
        &self,
        context: &Context,
        module: &Module,
        options: &CompileOptions,
        mut timings: CompileTimings,
    ) -> Result<Executable, Error> {
        let gpu = self.inner.device.as_ref().and_then(cuda::DeviceMemory::gpu);
        let target = match gpu {
            Some(gpu) => match &self.inner.gpu_processor {
                Some(name) => &Target::nvptx(name, ""),
                None => &nvptx::target_for(gpu.compute_capability(), gpu.driver_version()),
            },
            None => &self.inner.target,
        };
        let parallel = self.inner.threads.is_some();
        let gpu = self.inner.gpu_processor.as_deref().unwrap_or(target.cpu_name());
        let aim = Aim { platform: self.platform(), target, gpu, parallel };
        let program = aim.compile(context, module, options, &mut timings)?;
        let origin = Origin { timings, is_from_cache: false };
        // SAFETY: the objects were compiled from this program, for this client's devices.
        unsafe { Executable::load(self.clone(), program, origin) }
    }
}

/// One file of a program's code for several platforms, each with the processor that code is made for:
/// [`Client::deserialize`] takes what suits its devices. What is named twice is in it once, and so is code for each processor of GPUs,
/// of which the first would be taken anyway. No device is needed.
///
/// # Errors
/// As for [`Client::compile`].
pub fn bundle<'a>(
    source: impl Into<Source<'a>>,
    options: &CompileOptions,
    platforms: &[(Platform, Target)],
) -> Result<Vec<u8>, Error> {
    let module = source.into().module()?;
    let is_same = |(platform, target): &(Platform, Target), other: &(Platform, Target)| match platform {
        Platform::Cuda => other.0 == *platform && other.1.cpu_name() == target.cpu_name(),
        Platform::Cpu | Platform::CudaEmulator => *other == (*platform, target.clone()),
    };
    let is_first =
        |&(number, own): &(usize, &(Platform, Target))| !platforms[..number].iter().any(|other| is_same(own, other));
    let programs = platforms.iter().enumerate().filter(is_first).map(|(_, (platform, target))| {
        // Loops for several threads run on one, too.
        let aim = Aim { platform: *platform, target, gpu: target.cpu_name(), parallel: true };
        let context = hlo::dialect::context();
        Ok(aim.compile(&context, &module, options, &mut CompileTimings::default())?.write())
    });
    Ok(crate::bundle::write(&programs.collect::<Result<Vec<_>, Error>>()?))
}

/// What code is made for.
struct Aim<'t> {
    platform: Platform,
    target: &'t Target,
    /// The GPU that kernels are for, whoever plays it.
    gpu: &'t str,
    parallel: bool,
}

impl Aim<'_> {
    fn compile(
        &self,
        context: &Context,
        module: &Module,
        options: &CompileOptions,
        timings: &mut CompileTimings,
    ) -> Result<Program, Error> {
        let &Aim { platform, target, gpu, parallel } = self;
        let start = Instant::now();
        let program = pipeline::import(context, module)?;
        let pipeline = match platform {
            Platform::Cpu => CompilePipeline::cpu(target, parallel, options),
            Platform::Cuda | Platform::CudaEmulator => CompilePipeline::cuda(gpu, options),
        };
        let passes = match options.pass_limit {
            Some(limit) => pipeline::limited(&pipeline.text(), limit).0,
            None => pipeline.text(),
        };
        let run = pipeline::run(&program, &passes, options.verify)?;
        let all = start.elapsed();
        let [map, to_loops] = pipeline.loop_passes();
        timings.loops = run.elapsed_in(map) + run.elapsed_in(to_loops);
        timings.passes = run.elapsed_until(to_loops).saturating_sub(timings.loops);
        timings.lower = all.saturating_sub(timings.passes + timings.loops);
        let code_options = CodeGenerationOptions {
            threads: options.compile_threads,
            verify: options.verify,
            ..CodeGenerationOptions::default()
        };
        let interface = lowering_affine::interface::read(program.as_operation())?;
        let interface = interface.try_map_constants(|constant| match constant {
            Literal::Array(array) => Ok(array),
            other => Err(Error::Elided(other.shape().to_string())),
        })?;
        let start = Instant::now();
        let plan = match platform {
            Platform::Cpu => None,
            Platform::Cuda | Platform::CudaEmulator => Some(to_gpu::launch_plan(program.as_operation())?),
        };
        let mut cubins = Vec::new();
        let objects = match platform {
            Platform::Cpu => {
                let code = generate_code(&program, target, code_options)?;
                timings.translate = code.timings.translate;
                timings.optimize = code.timings.optimize;
                timings.emit = code.timings.emit;
                code.objects
            }
            Platform::Cuda => {
                let kernels = nvptx::generate(&program, target, code_options)?.text;
                let cubin = if options.assemble { ptxas::assemble(&kernels, target.cpu_name())? } else { None };
                cubins.extend(cubin.map(|code| (target.cpu_name().to_string(), code)));
                vec![kernels.into_bytes()]
            }
            Platform::CudaEmulator => vec![emulation::generate(&program, target, options.verify)?],
        };
        if plan.is_some() {
            timings.emit = start.elapsed();
        }
        let machine = Machine { triple: target.triple().to_string(), features: target.features().to_string() };
        Ok(Program { interface, objects, cubins, plan, machine })
    }
}
