//! Executables as bytes: object code, interface, and the compiler version and target.
//!
//! A file starts with what it is, ends with a checksum, and names the compiler (by its sources) and the machine. Code runs
//! with the runtime it was compiled against and on a CPU that has every feature it uses, and nowhere else.

use std::sync::Arc;

use hlo::devices::DeviceCount;
use hlo::launch_plan::LaunchPlan;
use hlo::packed_parameter::PackedParameter;
use hlo::profile::ProfiledStep;
use sha2::{Digest, Sha256};

use crate::bundle;
use crate::client::{Client, Platform};
use crate::encoding::{Malformed, Reader, Writer};
use crate::error::Error;
use crate::executable::{Code, CompileTimings, Executable, Interface, Machine, Origin, Program};

/// First bytes of a saved executable.
const MAGIC: &[u8; 8] = b"halo-exe";

/// Version of the form of the bytes.
const FORMAT: u64 = 7;

/// The compiler that this is, as a number made from its sources.
pub(crate) const COMPILER: &str = env!("HALO_SOURCES");

/// What the triple of code for GPUs begins with.
const GPU_ARCHITECTURE: &str = "nvptx64";

const CHECKSUM_BYTES: usize = 32;

impl Executable {
    /// The program as bytes, for [`Client::deserialize`].
    pub fn serialize(&self) -> Vec<u8> {
        let plan = match &self.inner.code {
            Code::Host { .. } => None,
            Code::Gpu(program) => Some(program.plan()),
            Code::Emulated(emulator) => Some(emulator.plan()),
        };
        let code = (&self.inner.objects[..], &self.inner.cubins[..]);
        write(&self.inner.interface, code, plan, &self.inner.machine)
    }
}

impl Program {
    /// The program as bytes.
    #[cfg(feature = "compiler")]
    pub(crate) fn write(&self) -> Vec<u8> {
        write(&self.interface, (&self.objects, &self.cubins), self.plan.as_ref(), &self.machine)
    }
}

/// Objects, and machine code of GPUs by their names.
type CodeParts<'a> = (&'a [Vec<u8>], &'a [(String, Vec<u8>)]);

fn write(
    interface: &Interface,
    (objects, cubins): CodeParts<'_>,
    plan: Option<&LaunchPlan>,
    machine: &Machine,
) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.bytes.extend(MAGIC);
    writer.number(FORMAT);
    writer.text(COMPILER);
    writer.text(&machine.triple);
    writer.text(&machine.features);
    writer.program_shape(&interface.program_shape);
    writer.list(&interface.parameters, |writer, shape| {
        writer.list(shape.as_slice(), |writer, shape| writer.array_shape(shape));
    });
    writer.list(&interface.outputs, |writer, shape| {
        writer.list(shape.as_slice(), |writer, shape| writer.array_shape(shape));
    });
    writer.list(&interface.aliases, |writer, alias| writer.number(alias.map_or(0, |leaf| leaf as u64 + 1)));
    writer.number(interface.arena_size as u64);
    writer.list(&interface.constants, Writer::literal);
    writer.cost(interface.cost);
    writer.list(&interface.steps, |writer, step| {
        writer.text(&step.name);
        writer.text(&step.operation);
        writer.number(step.has_steps.into());
        writer.cost(step.cost);
    });
    let DeviceCount { replicas, partitions } = interface.devices;
    writer.number(replicas as u64);
    writer.number(partitions as u64);
    writer.number(interface.communicates.into());
    writer.list(&interface.packed, |writer, packed| {
        writer.list(&packed.to_numbers(), |writer, &number| writer.number(number));
    });
    writer.list(objects, |writer, object| writer.block(object));
    writer.list(cubins, |writer, (processor, code)| {
        writer.text(processor);
        writer.block(code);
    });
    let plan = plan.map(LaunchPlan::to_string);
    writer.list(plan.as_slice(), |writer, plan| writer.text(plan));
    let checksum = Sha256::digest(&writer.bytes);
    writer.bytes.extend(checksum);
    writer.bytes
}

impl Client {
    /// A program saved with [`Executable::serialize`], or the one for this client's devices of a [`bundle`].
    ///
    /// # Safety
    /// The bytes hold machine code, which will run: they must come from [`Executable::serialize`] or
    /// [`bundle`] and not have been changed by anyone who is not trusted. Damage by accident is found.
    ///
    /// # Errors
    /// [`Error::Saved`] for bytes that are damaged, come from another version of halo, or hold code for another kind of
    /// machine; of a bundle, if that is so for each program in it.
    pub unsafe fn deserialize(&self, bytes: &[u8]) -> Result<Executable, Error> {
        let program = match bundle::programs(bytes) {
            None => self.read(bytes),
            Some(programs) => programs.and_then(|programs| {
                let mut reasons = Vec::new();
                for bytes in programs {
                    match self.read(bytes) {
                        Ok(program) => return Ok(program),
                        Err(reason) => reasons.push(reason),
                    }
                }
                reasons.dedup();
                Err(format!("nothing in the bundle runs here: {}", reasons.join("; ")))
            }),
        };
        let origin = Origin { timings: CompileTimings::default(), is_from_cache: true };
        // SAFETY: the caller's promise; compiler and machine were checked.
        unsafe { Executable::load(self.clone(), program.map_err(Error::Saved)?, origin) }
    }

    /// Reads a program that runs here.
    fn read(&self, bytes: &[u8]) -> Result<Program, Malformed> {
        let program = Program::read(bytes)?;
        let Machine { triple, features } = &program.machine;
        let is_for_gpu = triple.starts_with(GPU_ARCHITECTURE);
        let suits = match self.platform() {
            Platform::Cpu => !is_for_gpu && program.plan.is_none(),
            Platform::Cuda => is_for_gpu,
            Platform::CudaEmulator => !is_for_gpu && program.plan.is_some(),
        };
        if !suits {
            let made_for = match (is_for_gpu, &program.plan) {
                (true, _) => "NVIDIA GPUs",
                (false, Some(_)) => "emulation of a GPU",
                (false, None) => "CPUs",
            };
            return Err(format!("it was compiled for another platform ({made_for})"));
        }
        let gpu = self.inner.device.as_ref().and_then(cuda::DeviceMemory::gpu);
        let obstacle = match gpu {
            Some(gpu) => program.objects.iter().find_map(|ptx| gpu.obstacle(ptx)),
            None => exec::host::obstacle(triple, features),
        };
        obstacle.map_or(Ok(program), Err)
    }
}

impl Program {
    /// Reads the bytes of one that this halo made.
    fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let content = bytes.len().checked_sub(CHECKSUM_BYTES).and_then(|length| bytes.split_at_checked(length));
        let (content, checksum) = content.ok_or("it is no saved executable: too short")?;
        let mut reader = Reader::new(content);
        if reader.take(MAGIC.len()) != Ok(MAGIC) {
            return Err("it is no saved executable".to_string());
        }
        if Sha256::digest(content).as_slice() != checksum {
            return Err("it is damaged: its checksum differs".to_string());
        }
        let format = reader.number()?;
        if format != FORMAT {
            return Err(format!("it has the form of version {format}, this halo reads {FORMAT}"));
        }
        let compiler = reader.text()?;
        if compiler != COMPILER {
            return Err(format!("another version of halo made it ({compiler}, this is {COMPILER})"));
        }
        let machine = Machine { triple: reader.text()?.to_string(), features: reader.text()?.to_string() };
        let program_shape = reader.program_shape()?;
        let optional = |reader: &mut Reader<'_>| Ok(reader.list(16, Reader::array_shape)?.pop());
        let parameters = reader.list(8, optional)?;
        let outputs = reader.list(8, optional)?.into_iter().map(|shape| shape.map(Arc::new)).collect();
        let alias =
            |reader: &mut Reader<'_>| Ok(usize::try_from(reader.number()?).ok().and_then(|it| it.checked_sub(1)));
        let aliases = reader.list(8, alias)?;
        let arena_size = usize::try_from(reader.number()?).map_err(|error| error.to_string())?;
        let constants = reader.list(16, Reader::literal)?;
        let cost = reader.cost()?;
        let steps = reader.list(16, |reader| {
            Ok(ProfiledStep {
                name: reader.text()?.to_string(),
                operation: reader.text()?.to_string(),
                has_steps: reader.number()? != 0,
                cost: reader.cost()?,
            })
        })?;
        let devices = DeviceCount { replicas: reader.number()? as i64, partitions: reader.number()? as i64 };
        let communicates = reader.number()? != 0;
        let packed = reader.list(8, |reader| {
            let numbers = reader.list(8, Reader::number)?;
            PackedParameter::from_numbers(&numbers, parameters.len())
                .ok_or_else(|| "a packed parameter is wrong".to_string())
        })?;
        let objects = reader.list(8, |reader| Ok(reader.block()?.to_vec()))?;
        let cubins = reader.list(16, |reader| Ok((reader.text()?.to_string(), reader.block()?.to_vec())))?;
        let plan = reader.list(8, |reader| reader.text()?.parse())?.pop();
        reader.end()?;
        let interface = Interface {
            program_shape,
            parameters,
            outputs,
            aliases,
            arena_size,
            constants,
            cost,
            devices,
            communicates,
            steps,
            packed,
        };
        Ok(Program { interface, objects, cubins, plan, machine })
    }
}
