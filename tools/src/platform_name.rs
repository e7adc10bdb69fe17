//! How a platform is named on a command line: `cpu`, `cuda`, with the number of the machine's GPU `cuda:1`, and with the GPU that
//! kernels are for `cuda:sm_90a`, or both.

use std::ffi::OsStr;
use std::fmt;

use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser, ValueParserFactory};
use clap::error::ErrorKind;
use clap::{Arg, Command, ValueEnum};

use crate::error::ToolError;

/// A platform, and the processor that is named with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlatformName<P> {
    /// The platform.
    pub platform: P,
    /// The number of a GPU, behind a colon.
    pub gpu_number: Option<u32>,
    /// A processor, behind a colon too, by LLVM's name.
    pub processor: Option<String>,
}

impl<P> From<P> for PlatformName<P> {
    fn from(platform: P) -> Self {
        PlatformName { platform, gpu_number: None, processor: None }
    }
}

impl<P: ValueEnum> PlatformName<P> {
    /// The processor, which may be named with the platform or by an option of its own.
    ///
    /// # Errors
    /// [`ToolError::Usage`] where both name one.
    pub fn processor(&self, by_option: Option<&String>) -> Result<Option<String>, ToolError> {
        match (&self.processor, by_option) {
            (Some(own), Some(other)) => {
                let message = format!("--platform names the processor {own}, and --target-cpu {other}");
                Err(ToolError::Usage(message))
            }
            (own, other) => Ok(own.as_ref().or(other).cloned()),
        }
    }
}

impl<P: ValueEnum> fmt::Display for PlatformName<P> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.platform.to_possible_value().as_ref().map_or("", PossibleValue::get_name))?;
        self.gpu_number.iter().try_for_each(|number| write!(out, ":{number}"))?;
        self.processor.iter().try_for_each(|processor| write!(out, ":{processor}"))
    }
}

/// Reads such names.
#[derive(Clone, Debug)]
pub struct Parser<P: ValueEnum + Clone + Send + Sync + 'static>(EnumValueParser<P>);

impl<P: ValueEnum + Clone + Send + Sync + 'static> ValueParserFactory for PlatformName<P> {
    type Parser = Parser<P>;

    fn value_parser() -> Self::Parser {
        Parser(EnumValueParser::new())
    }
}

impl<P: ValueEnum + Clone + Send + Sync + 'static> TypedValueParser for Parser<P> {
    type Value = PlatformName<P>;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Self::Value, clap::Error> {
        let Some((name, gpu)) = value.to_str().and_then(|text| text.split_once(':')) else {
            return Ok(self.0.parse_ref(command, arg, value)?.into());
        };
        let platform = self.0.parse_ref(command, arg, OsStr::new(name))?;
        let (number, processor) = match gpu.split_once(':') {
            Some((number, processor)) => (number.parse().map(Some).ok(), Some(processor)),
            None => gpu.parse().map_or((Some(None), Some(gpu)), |number| (Some(Some(number)), None)),
        };
        match number.filter(|_| name.starts_with("cuda") && processor != Some("")) {
            Some(gpu_number) if gpu_number.is_none() || name == "cuda" => {
                Ok(PlatformName { platform, gpu_number, processor: processor.map(str::to_string) })
            }
            _ => {
                let message = format!("invalid platform '{name}:{gpu}': a GPU is named as in cuda:1 or cuda:sm_90a\n");
                Err(clap::Error::raw(ErrorKind::InvalidValue, message).with_cmd(command))
            }
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        self.0.possible_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::RunPlatform;

    fn read(text: &str) -> Option<PlatformName<RunPlatform>> {
        PlatformName::value_parser().parse_ref(&Command::new("tool"), None, OsStr::new(text)).ok()
    }

    #[test]
    fn a_gpu_may_be_named_with_its_platform() {
        let numbered = |platform, gpu_number, name: Option<&str>| {
            Some(PlatformName { platform, gpu_number, processor: name.map(str::to_string) })
        };
        let named = |platform, name| numbered(platform, None, name);
        assert_eq!(read("cpu"), named(RunPlatform::Cpu, None));
        assert_eq!(read("cuda:sm_90a"), named(RunPlatform::Cuda, Some("sm_90a")));
        assert_eq!(read("cuda-emulator:sm_80"), named(RunPlatform::CudaEmulator, Some("sm_80")));
        assert_eq!(read("cuda:1"), numbered(RunPlatform::Cuda, Some(1), None));
        assert_eq!(read("cuda:0:sm_80"), numbered(RunPlatform::Cuda, Some(0), Some("sm_80")));
        let wrong =
            ["cuda:", ":sm_80", "cpu:x86-64-v3", "gpu:sm_80", "gpu", "cpu:1", "cuda-emulator:1", "cuda:1:", "cuda:a:b"];
        for wrong in wrong {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        for name in ["cuda:sm_90a", "cuda:1", "cuda:1:sm_90a"] {
            assert_eq!(read(name).map(|name| name.to_string()).as_deref(), Some(name));
        }
    }
}
