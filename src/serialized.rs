//! Executables as bytes: object code, interface, and the compiler version and target.
//!
//! A file starts with what it is, ends with a checksum, and names the compiler (by its sources) and the machine. Code runs
//! with the runtime it was compiled against and on a CPU that has every feature it uses, and nowhere else.

use std::sync::Arc;

use hlo::devices::DeviceCount;
use hlo::launch_plan::LaunchPlan;
use hlo::profile::ProfiledStep;
use sha2::{Digest, Sha256};

use crate::client::{Client, Platform};
use crate::encoding::{Malformed, Reader, Writer};
use crate::error::Error;
use crate::executable::{Code, CompileTimings, Executable, Interface, Machine, Origin};

/// First bytes of a saved executable.
const MAGIC: &[u8; 8] = b"halo-exe";

/// Version of the form of the bytes.
const FORMAT: u64 = 4;

/// The compiler that this is, as a number made from its sources.
pub(crate) const COMPILER: &str = env!("HALO_SOURCES");

/// What the triple of code for GPUs begins with. The driver knows whether it takes that.
const GPU_ARCHITECTURE: &str = "nvptx64";

const CHECKSUM_BYTES: usize = 32;

impl Executable {
    /// The program as bytes, for [`Client::deserialize`].
    pub fn serialize(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.bytes.extend(MAGIC);
        writer.number(FORMAT);
        writer.text(COMPILER);
        writer.text(&self.inner.machine.triple);
        writer.text(&self.inner.machine.features);
        let interface = &self.inner.interface;
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
        writer.list(&self.inner.objects, |writer, object| writer.block(object));
        let plan = match &self.inner.code {
            Code::Host { .. } => None,
            Code::Gpu(program) => Some(program.plan().to_string()),
            Code::Emulated(emulator) => Some(emulator.plan().to_string()),
        };
        writer.list(plan.as_slice(), |writer, plan| writer.text(plan));
        let checksum = Sha256::digest(&writer.bytes);
        writer.bytes.extend(checksum);
        writer.bytes
    }
}

impl Client {
    /// A program saved with [`Executable::serialize`].
    ///
    /// # Safety
    /// The bytes hold machine code, which will run: they must come from [`Executable::serialize`] and not have been changed
    /// by anyone who is not trusted. Damage by accident is found.
    ///
    /// # Errors
    /// [`Error::Saved`] for bytes that are damaged, come from another version of halo, or hold code for another kind of
    /// machine.
    pub unsafe fn deserialize(&self, bytes: &[u8]) -> Result<Executable, Error> {
        let Saved { interface, objects, plan, machine } = Saved::read(bytes, self.platform()).map_err(Error::Saved)?;
        let origin = Origin { machine, timings: CompileTimings::default(), is_from_cache: true };
        // SAFETY: the caller's promise; compiler and CPU were checked.
        unsafe { Executable::load(self.clone(), objects, interface, plan, origin) }
    }
}

/// What the bytes hold.
struct Saved {
    interface: Interface,
    objects: Vec<Vec<u8>>,
    plan: Option<LaunchPlan>,
    machine: Machine,
}

impl Saved {
    /// Reads the bytes, of a program that runs here.
    fn read(bytes: &[u8], platform: Platform) -> Result<Self, Malformed> {
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
        match platform {
            Platform::Cuda if machine.triple.starts_with(GPU_ARCHITECTURE) => {}
            _ => exec::host::obstacle(&machine.triple, &machine.features).map_or(Ok(()), Err)?,
        }
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
        let objects = reader.list(8, |reader| Ok(reader.block()?.to_vec()))?;
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
        };
        Ok(Saved { interface, objects, plan, machine })
    }
}
