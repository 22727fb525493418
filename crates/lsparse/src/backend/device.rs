//! The choice between the CPU and a GPU for the local step.

use std::sync::Arc;

use lsparse_cuda::Device;
use serde::{Deserialize, Serialize};

use super::instructions;
use crate::error::{Error, Result};

/// What the local step is to run on. As text, and in settings: `auto`, `cpu`, `cuda` or `cuda:1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceChoice {
    /// A GPU where there is one and the work is large, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU of this number.
    Cuda(usize),
}

impl DeviceChoice {
    /// From text.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let number = text.strip_prefix("cuda:").map(str::parse);
        match (text, number) {
            ("auto", _) => Ok(DeviceChoice::Auto),
            ("cpu", _) => Ok(DeviceChoice::Cpu),
            ("cuda", _) => Ok(DeviceChoice::Cuda(0)),
            (_, Some(Ok(ordinal))) => Ok(DeviceChoice::Cuda(ordinal)),
            _ => Err("give auto, cpu, cuda, or cuda:1 for the second GPU and so on".to_owned()),
        }
    }

    /// Whether nothing is asked for: then settings do not mention it.
    pub fn is_auto(&self) -> bool {
        *self == DeviceChoice::Auto
    }
}

impl TryFrom<String> for DeviceChoice {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        DeviceChoice::parse(&text)
    }
}

impl From<DeviceChoice> for String {
    fn from(choice: DeviceChoice) -> String {
        match choice {
            DeviceChoice::Auto => "auto".into(),
            DeviceChoice::Cpu => "cpu".into(),
            DeviceChoice::Cuda(ordinal) => format!("cuda:{ordinal}"),
        }
    }
}

/// What a GPU would have to do, for choosing where it is done.
#[derive(Clone, Debug)]
pub struct Demand {
    /// Products of a lap.
    pub products: f64,
    /// Bytes of memory that it takes at least.
    pub bytes: u64,
    /// Why a GPU cannot do it at all.
    pub cannot: Option<String>,
}

/// Products of a lap from which on a GPU is taken without being asked for: two seconds of a core.
pub const LARGE_WORK: f64 = 1e11;

/// Where the local step runs.
#[derive(Clone, Default)]
pub struct Place {
    /// The GPU, if not the CPU.
    pub device: Option<Arc<Device>>,
    /// What is to be said of the choice.
    pub remark: Option<String>,
}

/// The CPU, and nothing to be said of it.
pub(crate) static CPU: Place = Place { device: None, remark: None };

impl Place {
    /// Choose: what is asked for by name must be there, and where nothing is asked for the CPU is always good enough.
    pub fn choose(choice: DeviceChoice, demand: &Demand) -> Result<Place> {
        Place::choose_among(choice, demand, |ordinal| {
            let device = Device::open(ordinal)?;
            let free = device.free_memory()?;
            Ok((device, free))
        })
    }

    /// The same with what opens a GPU and says how much of its memory is free.
    fn choose_among(
        choice: DeviceChoice,
        demand: &Demand,
        open: impl FnOnce(usize) -> lsparse_cuda::Result<(Arc<Device>, u64)>,
    ) -> Result<Place> {
        let ordinal = match choice {
            DeviceChoice::Cpu => return Ok(Place::default()),
            DeviceChoice::Auto if demand.products < LARGE_WORK => return Ok(Place::default()),
            DeviceChoice::Auto => 0,
            DeviceChoice::Cuda(ordinal) => ordinal,
        };
        let on_cpu = |why: &str| Place { device: None, remark: Some(format!("the CPU does the work: {why}")) };
        let refuse =
            |problem: String, remedy: &str| Err(Error::Config { setting: "device", problem, remedy: remedy.into() });
        if let Some(why) = &demand.cannot {
            // Known beforehand, so that nobody waits for a GPU that will idle. Not worth a word where nobody asked.
            return match choice {
                DeviceChoice::Auto => Ok(Place::default()),
                _ => refuse(why.clone(), "choose `device cpu`, or leave it out"),
            };
        }
        let too_small = |free: u64| {
            let gigabytes = |bytes: u64| bytes as f64 / 1e9;
            let (needed, free) = (gigabytes(demand.bytes), gigabytes(free));
            format!("it would take {needed:.1} GB of the GPU's memory at least, {free:.1} GB are free")
        };
        match open(ordinal) {
            Ok((_, free)) if free < demand.bytes && choice.is_auto() => Ok(on_cpu(&too_small(free))),
            Ok((_, free)) if free < demand.bytes => {
                refuse(too_small(free), "end what else runs there, ask for more `batches`, or choose `device cpu`")
            }
            Ok((device, _)) => {
                let remark = choice
                    .is_auto()
                    .then(|| format!("the {} does the work (`device cpu` if it should not)", device.info().name));
                Ok(Place { device: Some(device), remark })
            }
            Err(error) if choice.is_auto() => Ok(on_cpu(&error.to_string())),
            Err(error) => {
                let remedy = match error {
                    lsparse_cuda::Error::NoDevice { count, .. } if count > 0 => "choose one that is there",
                    lsparse_cuda::Error::OldDriver { .. } => "install a newer driver, or choose `device cpu`",
                    _ => "choose `device cpu`, or leave it out",
                };
                refuse(error.to_string(), remedy)
            }
        }
    }

    /// What gives the last digits: the same seed gives the same bits on the same kind of it alone.
    pub fn name(&self) -> String {
        match &self.device {
            Some(device) => format!("the GPU {}", device.info().name),
            None => format!("{} instructions", instructions()),
        }
    }
}

/// What can go wrong where a GPU works: with it, or with all else.
pub(crate) enum Trouble {
    Device(lsparse_cuda::Error),
    Other(Error),
}

impl From<lsparse_cuda::Error> for Trouble {
    fn from(error: lsparse_cuda::Error) -> Self {
        Trouble::Device(error)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Other(error)
    }
}

impl Trouble {
    /// What came of work on a GPU; nothing where its memory did not suffice.
    pub(crate) fn settle<R>(result: std::result::Result<R, Trouble>) -> Result<Option<R>> {
        match result {
            Ok(done) => Ok(Some(done)),
            Err(Trouble::Device(lsparse_cuda::Error::OutOfMemory { .. })) => Ok(None),
            Err(Trouble::Device(error)) => Err(Error::gpu(error)),
            Err(Trouble::Other(error)) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(choice: &str, demand: Demand, error: lsparse_cuda::Error) -> Result<Place> {
        Place::choose_among(DeviceChoice::parse(choice).unwrap(), &demand, |_| Err(error))
    }

    fn demand(products: f64) -> Demand {
        Demand { products, bytes: 1 << 30, cannot: None }
    }

    #[test]
    fn devices_are_named() {
        for name in ["auto", "cpu", "cuda:0", "cuda:3"] {
            assert_eq!(String::from(DeviceChoice::parse(name).unwrap()), name);
        }
        assert_eq!(DeviceChoice::parse("cuda"), Ok(DeviceChoice::Cuda(0)));
        for name in ["gpu", "cuda:", "cuda:x", "cuda:-1", ""] {
            assert!(DeviceChoice::parse(name).unwrap_err().contains("cuda:1"), "{name}");
        }
    }

    #[test]
    fn small_work_and_the_cpu_ask_for_no_gpu() {
        let never = |choice, products| {
            Place::choose_among(choice, &demand(products), |_| panic!("a GPU was opened")).unwrap().remark
        };
        assert_eq!(never(DeviceChoice::Auto, 1e9), None);
        assert_eq!(never(DeviceChoice::Cpu, 1e15), None);
    }

    #[test]
    fn where_there_is_no_gpu_it_is_said_or_refused() {
        use lsparse_cuda::Error as Cuda;
        let errors = [
            (Cuda::NoDriver, "no NVIDIA driver"),
            (Cuda::Static, "static program"),
            (Cuda::NoDevice { ordinal: 0, count: 0 }, "finds no GPU"),
            (Cuda::TooOld { name: "K80".into(), capability: (3, 7) }, "3.7, and 8.0 is needed"),
            (Cuda::OldDriver { detail: "INVALID_PTX".into() }, "does not take the kernels"),
            (Cuda::OutOfMemory { bytes: 3 << 30 }, "does not suffice for 3.2 GB"),
        ];
        for (error, words) in errors {
            let place = choose("auto", demand(1e12), error.clone()).unwrap();
            let remark = place.remark.unwrap();
            assert!(place.device.is_none() && remark.contains(words) && remark.starts_with("the CPU"), "{remark}");
            let refused = choose("cuda", demand(1.0), error).err().unwrap().to_string();
            assert!(refused.contains(words) && refused.contains("device"), "{refused}");
        }
        let other = choose("cuda:2", demand(1.0), Cuda::NoDevice { ordinal: 2, count: 1 }).err().unwrap().to_string();
        assert!(other.contains("no GPU 2, but 1") && other.contains("one that is there"), "{other}");
    }

    #[test]
    fn memory_that_does_not_suffice_is_no_error_and_all_else_is() {
        let settle = |trouble: Trouble| Trouble::settle::<()>(Err(trouble));
        assert_eq!(settle(lsparse_cuda::Error::OutOfMemory { bytes: 7 }.into()).unwrap(), None);
        let lost = lsparse_cuda::Error::Failed { action: "finish its work", detail: "ILLEGAL_ADDRESS".into() };
        let lost = settle(lost.into()).unwrap_err().to_string();
        assert!(lost.contains("finish its work") && lost.contains("`resume`"), "{lost}");
        assert!(matches!(settle(Error::NoRows { name: "x".into() }.into()), Err(Error::NoRows { .. })));
        assert_eq!(Trouble::settle(Ok(3)).unwrap(), Some(3));
    }

    #[test]
    fn what_a_gpu_cannot_do_is_refused_where_it_was_asked_for() {
        let demand = Demand { cannot: Some("counts have no kernel there".into()), ..demand(1e12) };
        let never = |choice| Place::choose_among(choice, &demand, |_| panic!("a GPU was opened"));
        assert_eq!(never(DeviceChoice::Auto).unwrap().remark, None);
        let refused = never(DeviceChoice::Cuda(0)).err().unwrap().to_string();
        assert_eq!(refused, "device: counts have no kernel there; choose `device cpu`, or leave it out");
    }
}
