//! A GPU's stream: what is asked of it is done in order, and the host waits when it wants to.

use std::ptr;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use crate::driver::{DevicePointer, Driver, Handle};
use crate::staging::Staging;
use crate::{Error, Gpu};

/// A stream, with what copies between host and device go through.
pub(crate) struct Stream {
    gpu: Arc<Gpu>,
    pub handle: Handle,
    /// At the beginning and at the end of what is timed.
    events: [Handle; 2],
    /// None where the host has no memory for it: then the driver's own is used.
    staging: Option<Staging>,
    /// Further streams, on which graphs within graphs are recorded.
    recorders: Vec<Handle>,
}

// SAFETY: the handles are the driver's, which is made for any number of threads.
unsafe impl Send for Stream {}

impl Drop for Stream {
    fn drop(&mut self) {
        let driver = self.driver();
        // SAFETY: stream and events are this value's own. What the stream uses must not be freed before it is done.
        unsafe {
            (driver.synchronize)(self.handle);
            // The staging's events are of the context, which this value may be the last to hold.
            drop(self.staging.take());
            self.events.iter().filter(|event| !event.is_null()).for_each(|&event| {
                (driver.destroy_event)(event);
            });
            self.recorders.iter().chain([&self.handle]).for_each(|&stream| {
                (driver.destroy_stream)(stream);
            });
        }
    }
}

impl Stream {
    /// A stream on which so many bytes come and go in a run.
    pub fn new(gpu: &Arc<Gpu>, bytes: usize) -> Result<Self, Error> {
        let handle = create(gpu.driver)?;
        let staging = Staging::new(gpu.driver, bytes);
        let gpu = Arc::clone(gpu);
        let mut stream = Stream { gpu, handle, events: [ptr::null_mut(); 2], staging, recorders: Vec::new() };
        let driver = stream.driver();
        for event in &mut stream.events {
            // SAFETY: the handle is written to a live variable.
            driver.check("cuEventCreate", unsafe { (driver.create_event)(event, 0) })?;
        }
        Ok(stream)
    }

    fn driver(&self) -> &'static Driver {
        self.gpu.driver
    }

    /// One of the streams on which graphs are recorded that are so deep within others, which [`Self::prepare_recorders`] made.
    pub fn recorder(&self, depth: usize) -> Option<Handle> {
        self.recorders.get(depth).copied()
    }

    /// Makes streams for recording graphs within graphs.
    pub fn prepare_recorders(&mut self, depth: usize) -> Result<(), Error> {
        while self.recorders.len() < depth {
            self.recorders.push(create(self.driver())?);
        }
        Ok(())
    }

    /// Waits until everything is done, and has come.
    pub fn wait(&mut self) -> Result<(), Error> {
        // SAFETY: the stream is this value's own.
        let waited = self.driver().check("cuStreamSynchronize", unsafe { (self.driver().synchronize)(self.handle) });
        if let Some(staging) = &mut self.staging {
            match waited {
                Ok(()) => staging.finish(),
                Err(_) => staging.forget(),
            }
        }
        waited
    }

    /// Waits until everything is done, and leaves what has come where it is: after a failure nobody may want it any more.
    pub fn abandon(&mut self) {
        // SAFETY: the stream is this value's own.
        unsafe { (self.driver().synchronize)(self.handle) };
        self.staging.iter_mut().for_each(Staging::forget);
    }

    /// The work that is timed begins.
    pub fn start_clock(&mut self) -> Result<(), Error> {
        self.record_event(0)
    }

    /// The work that is timed ends.
    pub fn stop_clock(&mut self) -> Result<(), Error> {
        self.record_event(1)
    }

    fn record_event(&mut self, number: usize) -> Result<(), Error> {
        // SAFETY: stream and event are this value's own.
        let code = unsafe { (self.driver().record_event)(self.events[number], self.handle) };
        self.driver().check("cuEventRecord", code)
    }

    /// The time between start and stop, once the stream was waited for.
    pub fn clock(&self) -> Result<Duration, Error> {
        let mut milliseconds = 0f32;
        let [start, end] = self.events;
        // SAFETY: both events were recorded, and the time is written to a live variable.
        let code = unsafe { (self.driver().elapsed)(&raw mut milliseconds, start, end) };
        self.driver().check("cuEventElapsedTime", code)?;
        Ok(Duration::try_from_secs_f32(milliseconds / 1e3).unwrap_or_default())
    }

    /// Whether bytes that are copied to the device are not needed any more at once.
    pub fn is_staged(&self) -> bool {
        self.staging.is_some()
    }

    /// Copies bytes of the host to the device.
    ///
    /// # Safety
    /// Both must be live memory of as many bytes until the stream was waited for.
    pub unsafe fn upload(&mut self, from: u64, to: DevicePointer, bytes: usize) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        self.gpu.transfers.add_to_device(bytes);
        // SAFETY: the caller's promise.
        unsafe {
            let from = from as *const u8;
            match &mut self.staging {
                Some(staging) => staging.upload(slice::from_raw_parts(from, bytes), to, self.handle),
                None => {
                    let code = (self.gpu.driver.copy_to_device)(to, from.cast(), bytes, self.handle);
                    self.gpu.driver.check("cuMemcpyHtoDAsync", code)
                }
            }
        }
    }

    /// Copies bytes of the device to the host, where they are once the stream was waited for.
    ///
    /// # Safety
    /// As for [`Self::upload`].
    pub unsafe fn download(&mut self, from: DevicePointer, to: u64, bytes: usize) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        self.gpu.transfers.add_to_host(bytes);
        // SAFETY: the caller's promise.
        unsafe {
            let to = to as *mut u8;
            match &mut self.staging {
                Some(staging) => staging.download(from, to, bytes, self.handle),
                None => {
                    let code = (self.gpu.driver.copy_to_host)(to.cast(), from, bytes, self.handle);
                    self.gpu.driver.check("cuMemcpyDtoHAsync", code)
                }
            }
        }
    }
}

fn create(driver: &Driver) -> Result<Handle, Error> {
    let mut stream = ptr::null_mut();
    // SAFETY: the handle is written to a live variable.
    driver.check("cuStreamCreate", unsafe { (driver.create_stream)(&raw mut stream, 0) }).map(|()| stream)
}
