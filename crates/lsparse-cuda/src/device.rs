//! Which GPUs there are, and what is done with one: memory, copies and launches, all in the order of one stream.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::{self, CUdevice_attribute, CUfunction_attribute_enum};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, CudaView, DevicePtr, DeviceRepr, LaunchArgs,
    LaunchConfig, PinnedHostSlice, PushKernelArg, ValidAsZeroBits,
};
use cudarc::nvrtc::Ptx;

use crate::artefacts::{Compiled, LEAST_CAPABILITY, MIXTURE};
use crate::error::{Error, Result};

/// Launch a kernel with these arguments; `unsafe` as [`Device::launch`] is.
macro_rules! launch {
    ($device:expr, $kernel:expr, $grid:expr, $($argument:expr),+ $(,)?) => {
        {
            let mut launch = $device.launch_of($kernel);
            $($crate::device::Argument::push($argument, &mut launch);)+
            $device.launch(launch, $grid)
        }
    };
}

#[allow(unused_imports, reason = "for the other files of this crate")]
pub(crate) use launch;

/// What is known of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Its number, from 0.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Its compute capability.
    pub capability: (i32, i32),
    /// Bytes of memory.
    pub memory: u64,
    /// Multiprocessors.
    pub multiprocessors: usize,
    /// Bytes of shared memory that a block may have.
    pub shared_memory: usize,
}

/// Numbers that may lie in the memory of a GPU, of which zero is all bits zero.
pub trait Plain: DeviceRepr + ValidAsZeroBits + Copy + Default + Send + 'static {}

impl<T: DeviceRepr + ValidAsZeroBits + Copy + Default + Send + 'static> Plain for T {}

/// How many GPUs the driver finds; an error where there is no driver.
fn count() -> Result<usize> {
    if cfg!(target_feature = "crt-static") {
        return Err(Error::Static);
    }
    // Safe: the library is looked for and let go of. Without it the next call would panic.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::NoDriver);
    }
    // A driver without a GPU says so in an error.
    match CudaContext::device_count() {
        Ok(count) => Ok(usize::try_from(count).unwrap_or(0)),
        Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NO_DEVICE => Ok(0),
        Err(error) => Err(Error::OldDriver { detail: format!("{:?}", error.0) }),
    }
}

/// The GPUs of this machine; an error where there is no driver.
pub fn devices() -> Result<Vec<Info>> {
    (0..count()?).map(|ordinal| info(&*context(ordinal)?, ordinal)).collect()
}

fn context(ordinal: usize) -> Result<Arc<CudaContext>> {
    CudaContext::new(ordinal).map_err(|error| Error::of("start", error))
}

fn info(context: &CudaContext, ordinal: usize) -> Result<Info> {
    let ask = || {
        let attribute = |which| context.attribute(which).map(|value| usize::try_from(value).unwrap_or(0));
        Ok(Info {
            ordinal,
            name: context.name()?,
            capability: context.compute_capability()?,
            memory: context.total_mem()? as u64,
            multiprocessors: attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            shared_memory: attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        })
    };
    ask().map_err(|error| Error::of("tell what it is", error))
}

/// A GPU that is ready for work.
pub struct Device {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    info: Info,
    /// The sources that were loaded, and whether in the form for this GPU.
    modules: Mutex<HashMap<&'static str, (Arc<CudaModule>, bool)>>,
}

/// Memory of a GPU that holds numbers.
pub struct Buffer<T> {
    slice: CudaSlice<T>,
}

impl<T> Buffer<T> {
    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.slice.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.slice.is_empty()
    }
}

/// Memory of the host that a GPU reads and writes at full speed.
pub struct Pinned<T> {
    slice: PinnedHostSlice<T>,
}

impl<T: Plain> Pinned<T> {
    /// The numbers.
    pub fn get(&self) -> Result<&[T]> {
        self.slice.as_slice().map_err(|error| Error::of("finish a copy", error))
    }

    /// The numbers, to be changed.
    pub fn get_mut(&mut self) -> Result<&mut [T]> {
        self.slice.as_mut_slice().map_err(|error| Error::of("finish a copy", error))
    }
}

/// A kernel, and how it is launched.
pub(crate) struct Kernel {
    function: CudaFunction,
}

/// Blocks, threads a block, and bytes of shared memory a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub blocks: usize,
    pub threads: usize,
    pub shared: usize,
}

impl Device {
    /// Make a GPU ready for work.
    pub fn open(ordinal: usize) -> Result<Arc<Device>> {
        let count = count()?;
        if ordinal >= count {
            return Err(Error::NoDevice { ordinal, count });
        }
        let context = context(ordinal)?;
        let info = info(&context, ordinal)?;
        if info.capability < LEAST_CAPABILITY {
            return Err(Error::TooOld { name: info.name, capability: info.capability });
        }
        // Safe: everything here happens in the order of one stream, so that no event is needed between uses of memory.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().map_err(|error| Error::of("start", error))?;
        let device = Device { context, stream, info, modules: Mutex::default() };
        device.check()?;
        Ok(Arc::new(device))
    }

    /// See that the driver takes the kernels, and that they run.
    fn check(&self) -> Result<()> {
        let kernel = self.kernel(&MIXTURE, "fill", 0)?;
        let mut values = self.zeros::<f32>(32)?;
        let (count, value) = (32, 1.0f32);
        // Safe: `fill` writes `count` numbers.
        unsafe { launch!(self, &kernel, Grid { blocks: 1, threads: 32, shared: 0 }, &mut values, &count, &value)? };
        match self.download(&values, 32)?.iter().all(|&v| v == value) {
            true => Ok(()),
            false => Err(Error::Failed { action: "run a kernel", detail: "what it was to write is not there".into() }),
        }
    }

    /// What is known of it.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Bytes of its memory that nobody has.
    pub fn free_memory(&self) -> Result<u64> {
        let free = self.context.mem_get_info().map_err(|error| Error::of("tell what memory is left", error))?;
        Ok(free.0 as u64)
    }

    /// Wait for all that was begun.
    pub fn synchronize(&self) -> Result<()> {
        self.stream.synchronize().map_err(|error| Error::of("finish its work", error))
    }

    /// Memory with zeros.
    pub fn zeros<T: Plain>(&self, len: usize) -> Result<Buffer<T>> {
        let mut buffer = self.uninitialized(len)?;
        self.clear(&mut buffer)?;
        Ok(buffer)
    }

    /// Memory with whatever numbers: for kernels that write all of it.
    pub fn uninitialized<T: Plain>(&self, len: usize) -> Result<Buffer<T>> {
        // Safe: any bits are a number of the types that are `Plain`. One element at least, since there is no empty memory.
        let slice = unsafe { self.stream.alloc::<T>(len.max(1)) };
        let slice = slice.map_err(|error| match Error::of("give memory", error) {
            Error::OutOfMemory { .. } => Error::OutOfMemory { bytes: (len * size_of::<T>()) as u64 },
            other => other,
        })?;
        Ok(Buffer { slice })
    }

    /// Put zeros into memory.
    pub fn clear<T: Plain>(&self, buffer: &mut Buffer<T>) -> Result<()> {
        self.stream.memset_zeros(&mut buffer.slice).map_err(|error| Error::of("clear memory", error))
    }

    /// A copy of numbers on the GPU.
    pub fn upload<T: Plain>(&self, values: &[T]) -> Result<Buffer<T>> {
        let mut buffer = self.uninitialized(values.len())?;
        self.upload_into(values, &mut buffer, 0)?;
        Ok(buffer)
    }

    /// Copy numbers to a place of a buffer; they are copied when this returns.
    pub fn upload_into<T: Plain>(&self, values: &[T], buffer: &mut Buffer<T>, first: usize) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        let mut place = buffer
            .slice
            .try_slice_mut(first..first + values.len())
            .ok_or(Error::Failed { action: "copy to the GPU", detail: "past the end of a buffer".into() })?;
        self.stream.memcpy_htod(values, &mut place).map_err(|error| Error::of("copy to the GPU", error))
    }

    /// The same from memory that the GPU reads by itself, without waiting: [`synchronize`](Device::synchronize) is to come
    /// before `values` are changed or gone.
    pub(crate) fn begin_upload<T: Plain>(
        &self,
        values: &Pinned<T>,
        len: usize,
        buffer: &mut Buffer<T>,
        first: usize,
    ) -> Result<()> {
        let bad = || Error::Failed { action: "copy to the GPU", detail: "past the end of a buffer".into() };
        let from = values.get()?.get(..len).ok_or_else(bad)?;
        let mut place = buffer.slice.try_slice_mut(first..first + len).ok_or_else(bad)?;
        self.stream.memcpy_htod(from, &mut place).map_err(|error| Error::of("copy to the GPU", error))
    }

    /// Begin to copy the first numbers of a buffer: [`synchronize`](Device::synchronize) is to come before they are read, or
    /// their place is gone.
    pub(crate) fn begin_download<T: Plain>(&self, buffer: &Buffer<T>, to: &mut Pinned<T>, len: usize) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let bad = || Error::Failed { action: "copy from the GPU", detail: "past the end of a buffer".into() };
        let place = buffer.slice.try_slice(..len).ok_or_else(bad)?;
        let here = to.get_mut()?.get_mut(..len).ok_or_else(bad)?;
        self.stream.memcpy_dtoh(&place, here).map_err(|error| Error::of("copy from the GPU", error))
    }

    /// Memory of the host for fast copies.
    pub fn pinned<T: Plain>(&self, len: usize) -> Result<Pinned<T>> {
        // Safe: any bits are a number of the types that are `Plain`; not write-combined, so that the host can read it.
        let slice = unsafe { self.context.alloc_pinned_with_flags::<T>(len.max(1), 0) };
        Ok(Pinned { slice: slice.map_err(|error| Error::of("share memory with the host", error))? })
    }

    /// The numbers of a buffer.
    pub fn download<T: Plain>(&self, buffer: &Buffer<T>, len: usize) -> Result<Vec<T>> {
        let mut values = vec![T::default(); len];
        self.download_into(buffer, &mut values)?;
        Ok(values)
    }

    /// The first numbers of a buffer, all of them there when this returns.
    pub fn download_into<T: Plain>(&self, buffer: &Buffer<T>, values: &mut [T]) -> Result<()> {
        if !values.is_empty() {
            let place = buffer
                .slice
                .try_slice(..values.len())
                .ok_or(Error::Failed { action: "copy from the GPU", detail: "past the end of a buffer".into() })?;
            self.stream.memcpy_dtoh(&place, values).map_err(|error| Error::of("copy from the GPU", error))?;
        }
        self.synchronize()
    }

    /// Where a buffer lies in the GPU's memory, for kernels that take many of them: it must outlive what is launched.
    pub(crate) fn address<T>(&self, buffer: &Buffer<T>) -> u64 {
        buffer.slice.device_ptr(&self.stream).0
    }

    /// One number of a buffer.
    pub(crate) fn download_at<T: Plain>(&self, buffer: &Buffer<T>, at: usize) -> Result<T> {
        let mut value = [T::default()];
        let place = buffer
            .slice
            .try_slice(at..at + 1)
            .ok_or(Error::Failed { action: "copy from the GPU", detail: "past the end of a buffer".into() })?;
        self.stream.memcpy_dtoh(&place, &mut value).map_err(|error| Error::of("copy from the GPU", error))?;
        self.synchronize()?;
        Ok(value[0])
    }

    /// A kernel by its name in a source. With more than 48 kB of shared memory it must say how much.
    pub(crate) fn kernel(&self, compiled: &'static Compiled, name: &str, shared: usize) -> Result<Kernel> {
        let (module, _) = self.module(compiled)?;
        let function = module.load_function(name).map_err(|error| Error::of("find a kernel", error))?;
        if shared > 48 << 10 {
            let attribute = CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let bytes = i32::try_from(shared).unwrap_or(i32::MAX);
            function.set_attribute(attribute, bytes).map_err(|error| Error::of("give shared memory", error))?;
        }
        Ok(Kernel { function })
    }

    /// Whether the kernels of a source are those that were compiled for this very kind of GPU.
    pub(crate) fn is_native(&self, compiled: &'static Compiled) -> Result<bool> {
        Ok(self.module(compiled)?.1)
    }

    fn module(&self, compiled: &'static Compiled) -> Result<(Arc<CudaModule>, bool)> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = modules.get(compiled.name) {
            return Ok(loaded.clone());
        }
        let loaded = self.load(compiled)?;
        modules.insert(compiled.name, loaded.clone());
        Ok(loaded)
    }

    /// The form for this GPU, or where the driver does not take it (it is older than the compiler), the one that the
    /// driver compiles.
    fn load(&self, compiled: &'static Compiled) -> Result<(Arc<CudaModule>, bool)> {
        if let Some(binary) = compiled.binary(self.info.capability)
            && let Ok(module) = self.context.load_module(Ptx::from_binary(binary))
        {
            return Ok((module, true));
        }
        let source = compiled.ptx();
        let source = source.map_err(|error| Error::Failed { action: "unpack kernels", detail: error.to_string() })?;
        let module = self.context.load_module(Ptx::from_src(source));
        Ok((module.map_err(|error| Error::OldDriver { detail: format!("{:?}", error.0) })?, false))
    }

    /// A launch to push arguments to, in order.
    pub(crate) fn launch_of<'a>(&'a self, kernel: &'a Kernel) -> LaunchArgs<'a> {
        self.stream.launch_builder(&kernel.function)
    }

    /// Launch a kernel with the arguments that were pushed.
    ///
    /// # Safety
    /// The arguments are those of the kernel in number, order and type, and it reads and writes within its buffers.
    pub(crate) unsafe fn launch(&self, mut launch: LaunchArgs<'_>, grid: Grid) -> Result<()> {
        if grid.blocks == 0 {
            return Ok(());
        }
        let size = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let config = LaunchConfig {
            grid_dim: (size(grid.blocks), 1, 1),
            block_dim: (size(grid.threads), 1, 1),
            shared_mem_bytes: size(grid.shared),
        };
        // Safe: promised by the caller.
        unsafe { launch.launch(config) }.map(|_| ()).map_err(|error| Error::of("start a kernel", error))
    }

    /// Lines of work beside each other, for kernels that do not need one another's results.
    pub(crate) fn lines(&self, count: usize) -> Result<Lines> {
        let lines = (0..count).map(|_| self.context.new_stream().map_err(|error| Error::of("start", error)));
        Ok(Lines { streams: lines.collect::<Result<_>>()? })
    }

    /// Let work begin side by side, after all that was begun before; all of it is waited for before what comes next, also
    /// where `work` fails.
    pub(crate) fn side_by_side(&self, lines: &Lines, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let join = |one: &Arc<CudaStream>, other: &Arc<CudaStream>| {
            one.join(other).map_err(|error| Error::of("order its work", error))
        };
        lines.streams.iter().try_for_each(|line| join(line, &self.stream))?;
        let result = work();
        lines.streams.iter().try_for_each(|line| join(&self.stream, line))?;
        result
    }
}

/// Lines of work beside each other.
pub(crate) struct Lines {
    streams: Vec<Arc<CudaStream>>,
}

impl Lines {
    /// Copy the first numbers of memory that the GPU reads by itself to a buffer, beside all that goes on elsewhere; they are
    /// copied when this returns.
    pub(crate) fn upload<T: Plain>(
        &self,
        device: &Device,
        values: &Pinned<T>,
        len: usize,
        buffer: &mut Buffer<T>,
    ) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        device.context.bind_to_thread().map_err(|error| Error::of("start", error))?;
        let bad = || Error::Failed { action: "copy to the GPU", detail: "past the end of a buffer".into() };
        let from = values.get()?.get(..len).ok_or_else(bad)?;
        let mut place = buffer.slice.try_slice_mut(..len).ok_or_else(bad)?;
        let line = &self.streams[0];
        line.memcpy_htod(from, &mut place).map_err(|error| Error::of("copy to the GPU", error))?;
        line.synchronize().map_err(|error| Error::of("finish a copy", error))
    }

    /// A launch in one of the lines, to push arguments to. It is to be within [`Device::side_by_side`], and no other line
    /// may write what it reads or writes but by atomic additions.
    pub(crate) fn launch_of<'a>(&'a self, line: usize, kernel: &'a Kernel) -> LaunchArgs<'a> {
        self.streams[line % self.streams.len()].launch_builder(&kernel.function)
    }
}

/// What a kernel takes.
pub(crate) trait Argument<'a> {
    /// Push it.
    fn push(self, launch: &mut LaunchArgs<'a>);
}

impl<'a, T> Argument<'a> for &'a Buffer<T> {
    fn push(self, launch: &mut LaunchArgs<'a>) {
        launch.arg(&self.slice);
    }
}

impl<'a, T> Argument<'a> for &'a mut Buffer<T> {
    fn push(self, launch: &mut LaunchArgs<'a>) {
        launch.arg(&mut self.slice);
    }
}

/// A stretch of a buffer, to be read.
pub(crate) struct Part<'b, T>(CudaView<'b, T>);

impl<T> Buffer<T> {
    /// The numbers of a range, which must be there.
    pub(crate) fn part(&self, range: std::ops::Range<usize>) -> Result<Part<'_, T>> {
        let beyond = || Error::Failed { action: "start a kernel", detail: "past the end of a buffer".into() };
        self.slice.try_slice(range).map(Part).ok_or_else(beyond)
    }
}

impl<'a, T> Argument<'a> for &'a Part<'_, T> {
    fn push(self, launch: &mut LaunchArgs<'a>) {
        launch.arg(&self.0);
    }
}

/// What a kernel takes in the place of what is not there.
static NOTHING: u64 = 0;

impl<'a, A: Argument<'a>> Argument<'a> for Option<A> {
    fn push(self, launch: &mut LaunchArgs<'a>) {
        match self {
            Some(argument) => argument.push(launch),
            None => {
                launch.arg(&NOTHING);
            }
        }
    }
}

macro_rules! plain_arguments {
    ($($type:ty),+) => {
        $(impl<'a> Argument<'a> for &'a $type {
            fn push(self, launch: &mut LaunchArgs<'a>) {
                launch.arg(self);
            }
        })+
    };
}

plain_arguments!(i32, u32, u64, f32, f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_driver_or_a_gpu_it_is_said() {
        match devices() {
            Ok(found) => {
                let beyond = Device::open(found.len()).err().unwrap();
                assert_eq!(beyond, Error::NoDevice { ordinal: found.len(), count: found.len() });
            }
            Err(error) => assert_eq!(Device::open(0).err().unwrap(), error),
        }
    }
}
