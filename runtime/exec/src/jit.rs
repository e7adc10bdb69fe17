//! Object files to callable code: a linker in memory for the ELF objects that the code generator makes for x86-64.
//!
//! It needs nothing of LLVM, so a program that only runs saved code does without. Each [`Jit`] owns one mapping: dropping
//! it unmaps its code, so nothing looked up in it may be called afterwards. Symbols come from the objects, then from the
//! table given to [`Jit::load`], then from the process (libc and libm).
//!
//! The mapping holds code, then constants and the table of outside addresses, then data, each on pages of its own; code is
//! never writable once it may run. Functions outside are further away than a call reaches, so calls of them go through a
//! stub that jumps to an address of the table.

use crate::Error;
use crate::runtime::why_missing;
use object::elf::{
    R_X86_64_64, R_X86_64_GOTPCREL, R_X86_64_GOTPCRELX, R_X86_64_PC32, R_X86_64_PC64, R_X86_64_PLT32,
    R_X86_64_REX_GOTPCRELX,
};
use object::read::elf::ElfFile64;
use object::{
    Architecture, Object, ObjectKind, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SectionIndex,
    SectionKind, SymbolIndex, SymbolSection,
};
use std::{
    collections::{HashMap, hash_map::Entry},
    ffi::{CString, c_void},
    io,
    ptr::{self, NonNull},
};

/// An address that loaded code may refer to by name.
pub type Symbol<'a> = (&'a str, *const ());

/// Loaded code.
pub struct Jit {
    _mapping: Mapping,
    symbols: HashMap<String, usize>,
}

impl Jit {
    /// Loads object files, which may refer to each other and to `symbols`.
    ///
    /// # Safety
    /// The objects' code runs as it is: they must come from this compiler, for this CPU. The addresses in `symbols`
    /// must be functions or data of the types that the code expects, and outlive the result.
    ///
    /// # Errors
    /// [`Error::Load`], and [`Error::NoSymbol`] for a symbol that nothing defines.
    pub unsafe fn load<O: AsRef<[u8]>>(objects: &[O], symbols: &[Symbol]) -> Result<Self, Error> {
        let files = objects.iter().map(|object| parse(object.as_ref())).collect::<Result<Vec<_>, _>>()?;
        let outside: HashMap<&str, usize> = symbols.iter().map(|(name, address)| (*name, *address as usize)).collect();
        let layout = Layout::of(&files)?;
        let mut mapping = Mapping::new(layout.size())?;
        let linker = Linker { base: mapping.address.as_ptr() as usize, layout, files: &files, outside };
        let definitions = linker.definitions()?;
        linker.fill(mapping.bytes(), &definitions)?;
        mapping.protect(&linker.layout)?;
        let symbols =
            definitions.into_iter().map(|(name, definition)| (name.to_string(), definition.address)).collect();
        Ok(Self { _mapping: mapping, symbols })
    }

    /// The address of a function or datum of the loaded objects.
    ///
    /// # Errors
    /// [`Error::NoSymbol`] if it is absent.
    pub fn lookup(&self, name: &str) -> Result<NonNull<c_void>, Error> {
        let address = self.symbols.get(name).and_then(|&address| NonNull::new(address as *mut c_void));
        address.ok_or_else(|| Error::NoSymbol { name: name.into(), reason: "no object defines it".into() })
    }
}

type File<'d> = ElfFile64<'d>;

fn load_error(reason: impl ToString) -> Error {
    Error::Load(reason.to_string())
}

fn parse(bytes: &[u8]) -> Result<File<'_>, Error> {
    let file = File::parse(bytes).map_err(load_error)?;
    if file.architecture() != Architecture::X86_64 || file.kind() != ObjectKind::Relocatable {
        return Err(load_error("it is no relocatable object file for x86-64"));
    }
    Ok(file)
}

/// Parts of the mapping by what the processor may do with them, in order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Code,
    Constants,
    Data,
}

impl Part {
    const ALL: [Part; 3] = [Part::Code, Part::Constants, Part::Data];

    /// The part that sections of a kind belong to; `None` for what a running program does not need.
    fn of(kind: SectionKind) -> Option<Part> {
        match kind {
            SectionKind::Text => Some(Part::Code),
            SectionKind::ReadOnlyData | SectionKind::ReadOnlyDataWithRel | SectionKind::ReadOnlyString => {
                Some(Part::Constants)
            }
            SectionKind::Data | SectionKind::UninitializedData => Some(Part::Data),
            _ => None,
        }
    }

    fn protection(self) -> i32 {
        match self {
            Part::Code => libc::PROT_READ | libc::PROT_EXEC,
            Part::Constants => libc::PROT_READ,
            Part::Data => libc::PROT_READ | libc::PROT_WRITE,
        }
    }
}

/// `jmp *offset(%rip)`, filled up.
const STUB: [u8; STUB_SIZE] = [0xff, 0x25, 0, 0, 0, 0, 0x66, 0x90];
const STUB_SIZE: usize = 8;
/// The jump's offset counts from the end of the instruction.
const STUB_JUMP_END: usize = 6;
const SLOT_SIZE: usize = 8;

/// Where everything goes, as offsets in the mapping.
struct Layout {
    /// First byte of each part, and the end.
    bounds: [usize; Part::ALL.len() + 1],
    sections: HashMap<(usize, SectionIndex), usize>,
    /// Symbols that are reached by way of the table: each has a stub and a slot of this number.
    slots: HashMap<(usize, SymbolIndex), usize>,
    first_stub: usize,
    first_slot: usize,
}

impl Layout {
    fn of(files: &[File<'_>]) -> Result<Self, Error> {
        let mut slots = HashMap::new();
        for (number, file) in files.iter().enumerate() {
            for section in file.sections().filter(|section| Part::of(section.kind()).is_some()) {
                for (_, relocation) in section.relocations() {
                    let RelocationTarget::Symbol(index) = relocation.target() else { continue };
                    let is_outside = file.symbol_by_index(index).map_err(load_error)?.is_undefined();
                    if is_outside || is_by_table(relocation.flags()) {
                        let next = slots.len();
                        slots.entry((number, index)).or_insert(next);
                    }
                }
            }
        }
        let mut layout =
            Layout { bounds: [0; Part::ALL.len() + 1], sections: HashMap::new(), slots, first_stub: 0, first_slot: 0 };
        let mut end = 0;
        for (part, which) in Part::ALL.into_iter().enumerate() {
            end = align(end, page_size())?;
            layout.bounds[part] = end;
            for (number, file) in files.iter().enumerate() {
                for section in file.sections().filter(|section| Part::of(section.kind()) == Some(which)) {
                    let start = align(end, section.align().max(1) as usize)?;
                    layout.sections.insert((number, section.index()), start);
                    end = start.checked_add(section.size() as usize).ok_or_else(|| load_error("it is too large"))?;
                }
            }
            let (size, first) = match which {
                Part::Code => (STUB_SIZE, &mut layout.first_stub),
                Part::Constants => (SLOT_SIZE, &mut layout.first_slot),
                Part::Data => continue,
            };
            *first = align(end, size)?;
            end = *first + layout.slots.len() * size;
        }
        layout.bounds[Part::ALL.len()] = align(end, page_size())?;
        Ok(layout)
    }

    fn size(&self) -> usize {
        self.bounds[Part::ALL.len()]
    }
}

fn is_by_table(flags: RelocationFlags) -> bool {
    let RelocationFlags::Elf { r_type } = flags else { return false };
    matches!(r_type, R_X86_64_GOTPCREL | R_X86_64_GOTPCRELX | R_X86_64_REX_GOTPCRELX)
}

fn align(offset: usize, alignment: usize) -> Result<usize, Error> {
    offset.checked_next_multiple_of(alignment).ok_or_else(|| load_error("it is too large"))
}

fn page_size() -> usize {
    // SAFETY: a query without effects.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// A symbol that an object defines.
struct Definition {
    address: usize,
    is_weak: bool,
}

struct Linker<'a, 'd> {
    base: usize,
    layout: Layout,
    files: &'a [File<'d>],
    outside: HashMap<&'a str, usize>,
}

impl<'d> Linker<'_, 'd> {
    /// The address of a symbol that its own object defines.
    fn own_address(&self, file: usize, symbol: &impl ObjectSymbol<'d>) -> Result<usize, Error> {
        match symbol.section() {
            SymbolSection::Absolute => Ok(symbol.address() as usize),
            SymbolSection::Section(section) => match self.layout.sections.get(&(file, section)) {
                Some(start) => Ok(self.base + start + symbol.address() as usize),
                None => Err(load_error("code refers to a section that is not loaded")),
            },
            section => Err(load_error(format!("a symbol in the section {section:?} cannot be loaded"))),
        }
    }

    /// The symbols that objects show each other.
    fn definitions(&self) -> Result<HashMap<&'d str, Definition>, Error> {
        let mut definitions: HashMap<&str, Definition> = HashMap::new();
        for (number, file) in self.files.iter().enumerate() {
            for symbol in file.symbols().filter(|symbol| symbol.is_global() && symbol.is_definition()) {
                let name = symbol.name().map_err(load_error)?;
                let new = Definition { address: self.own_address(number, &symbol)?, is_weak: symbol.is_weak() };
                match definitions.entry(name) {
                    Entry::Vacant(entry) => _ = entry.insert(new),
                    Entry::Occupied(mut entry) if entry.get().is_weak && !new.is_weak => _ = entry.insert(new),
                    Entry::Occupied(_) if new.is_weak => {}
                    Entry::Occupied(_) => return Err(load_error(format!("two objects define `{name}`"))),
                }
            }
        }
        Ok(definitions)
    }

    fn address(
        &self,
        file: usize,
        symbol: &impl ObjectSymbol<'d>,
        definitions: &HashMap<&'d str, Definition>,
    ) -> Result<usize, Error> {
        if !symbol.is_undefined() {
            return self.own_address(file, symbol);
        }
        let name = symbol.name().map_err(load_error)?;
        let known = definitions.get(name).map(|definition| definition.address);
        known.or_else(|| self.outside.get(name).copied()).or_else(|| address_in_process(name)).map_or_else(
            || match symbol.is_weak() {
                true => Ok(0),
                false => Err(Error::NoSymbol { name: name.into(), reason: why_missing(name) }),
            },
            Ok,
        )
    }

    /// Writes sections, stubs and table.
    fn fill(&self, memory: &mut [u8], definitions: &HashMap<&'d str, Definition>) -> Result<(), Error> {
        for (&(number, symbol), &slot) in &self.layout.slots {
            let symbol = self.files[number].symbol_by_index(symbol).map_err(load_error)?;
            let (stub, slot) = (self.stub(slot), self.slot(slot));
            put(memory, slot, &(self.address(number, &symbol, definitions)? as u64).to_le_bytes())?;
            put(memory, stub, &STUB)?;
            put(memory, stub + 2, &relative(slot, stub + STUB_JUMP_END)?)?;
        }
        for (number, file) in self.files.iter().enumerate() {
            for section in file.sections() {
                let Some(&start) = self.layout.sections.get(&(number, section.index())) else { continue };
                put(memory, start, section.data().map_err(load_error)?)?;
                for (offset, relocation) in section.relocations() {
                    let place = start + offset as usize;
                    let RelocationTarget::Symbol(index) = relocation.target() else {
                        return Err(load_error("a relocation names no symbol"));
                    };
                    let RelocationFlags::Elf { r_type } = relocation.flags() else {
                        return Err(load_error("a relocation is not ELF's"));
                    };
                    let symbol = file.symbol_by_index(index).map_err(load_error)?;
                    let slot = self.layout.slots.get(&(number, index)).copied();
                    let target = match slot {
                        Some(slot) if is_by_table(relocation.flags()) => self.base + self.slot(slot),
                        Some(slot) if symbol.is_undefined() && r_type == R_X86_64_PLT32 => self.base + self.stub(slot),
                        _ => self.address(number, &symbol, definitions)?,
                    };
                    let target = target.wrapping_add_signed(relocation.addend() as isize);
                    let from = self.base + place;
                    match r_type {
                        R_X86_64_64 => put(memory, place, &(target as u64).to_le_bytes())?,
                        R_X86_64_PC64 => put(memory, place, &(target.wrapping_sub(from) as u64).to_le_bytes())?,
                        R_X86_64_PC32
                        | R_X86_64_PLT32
                        | R_X86_64_GOTPCREL
                        | R_X86_64_GOTPCRELX
                        | R_X86_64_REX_GOTPCRELX => put(memory, place, &relative(target, from)?)?,
                        other => return Err(load_error(format!("relocations of type {other} are not known"))),
                    }
                }
            }
        }
        Ok(())
    }

    fn stub(&self, slot: usize) -> usize {
        self.layout.first_stub + slot * STUB_SIZE
    }

    fn slot(&self, slot: usize) -> usize {
        self.layout.first_slot + slot * SLOT_SIZE
    }
}

/// The distance between two addresses as code holds it.
fn relative(to: usize, from: usize) -> Result<[u8; 4], Error> {
    let distance = to.wrapping_sub(from) as isize;
    i32::try_from(distance).map(i32::to_le_bytes).map_err(|_| load_error("a symbol is too far away"))
}

fn put(memory: &mut [u8], offset: usize, bytes: &[u8]) -> Result<(), Error> {
    let place = offset.checked_add(bytes.len()).and_then(|end| memory.get_mut(offset..end));
    place.ok_or_else(|| load_error("it is damaged"))?.copy_from_slice(bytes);
    Ok(())
}

/// A symbol of the libraries that the process has loaded.
fn address_in_process(name: &str) -> Option<usize> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name is zero-terminated; finding a symbol runs no code.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address as usize)
}

/// Whole pages of memory.
struct Mapping {
    address: NonNull<u8>,
    size: usize,
}

// SAFETY: the pages are written before they are shared, and their code runs on any thread.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(size: usize) -> Result<Self, Error> {
        let size = size.max(1);
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new pages, wherever the system puts them.
        let address = unsafe { libc::mmap(ptr::null_mut(), size, protection, flags, -1, 0) };
        match NonNull::new(address.cast::<u8>()) {
            Some(address) if address.as_ptr().cast() != libc::MAP_FAILED => Ok(Mapping { address, size }),
            _ => Err(Error::OutOfMemory { bytes: size }),
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the pages are this value's own, zero at first, and writable until `protect`.
        unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr(), self.size) }
    }

    fn protect(&mut self, layout: &Layout) -> Result<(), Error> {
        for (part, bounds) in Part::ALL.into_iter().zip(layout.bounds.windows(2)) {
            let (start, end) = (bounds[0], bounds[1]);
            // SAFETY: whole pages of the mapping.
            let address = unsafe { self.address.as_ptr().add(start) };
            // SAFETY: as above; nothing refers to them as a slice any more.
            if start < end && unsafe { libc::mprotect(address.cast(), end - start, part.protection()) } != 0 {
                return Err(load_error(format!("code cannot be made executable: {}", io::Error::last_os_error())));
            }
        }
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the pages are this value's own, and whoever looked symbols up answers for not using them any more.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.size) };
    }
}
