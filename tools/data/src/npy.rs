//! NumPy's `.npy` and `.npz` files as literals.
//!
//! Element types that NumPy lacks are read from unsigned integers or `void` of the same width (4- and 2-bit
//! types: one element a byte) and written as unsigned integers. Files may be big-endian or column-major;
//! literals are native and row-major.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use hlo::element_type::{ElementClass, ElementType};
use hlo::literal::{self, AlignedBytes, ArrayLiteral, LiteralError};
use hlo::scalar::{self, Scalar};
use hlo::shape::ArrayShape;
use npyz::{DType, Endianness, NpyHeader, Order, TypeChar, WriteOptions, WriterBuilder};

use crate::error::DataError;

/// First bytes of a `.npy` file.
pub const MAGIC: &[u8] = b"\x93NUMPY";

/// Reads a `.npy` file that must hold an array of the given shape (the layout does not count).
pub fn read(path: &Path, shape: &ArrayShape) -> Result<ArrayLiteral, DataError> {
    let file = File::open(path).map_err(|source| DataError::read(path, source))?;
    read_array(BufReader::new(file), shape).map_err(|message| DataError::data(path, message))
}

/// Reads an array of the given shape from the bytes of a `.npy` file.
///
/// # Errors
/// What is wrong with the file.
pub fn read_from(reader: impl Read, shape: &ArrayShape) -> Result<ArrayLiteral, String> {
    read_array(reader, shape)
}

/// An open `.npz` archive.
pub struct NpzFile {
    archive: zip::ZipArchive<BufReader<File>>,
    path: std::path::PathBuf,
}

impl NpzFile {
    /// Opens an archive.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let mut file = BufReader::new(File::open(path).map_err(|source| DataError::read(path, source))?);
        let beginning = file.fill_buf().map_err(|source| DataError::read(path, source))?;
        if beginning.starts_with(MAGIC) {
            return Err(DataError::data(path, "one array in a .npy file, not an npz archive"));
        }
        let archive = zip::ZipArchive::new(file)
            .map_err(|error| DataError::data(path, format!("not an npz archive: {error}")))?;
        Ok(NpzFile { archive, path: path.to_path_buf() })
    }

    /// Names of the arrays in the order of the archive.
    pub fn names(&self) -> Vec<String> {
        (0..self.archive.len())
            .filter_map(|position| self.archive.name_for_index(position))
            .map(|name| name.strip_suffix(".npy").unwrap_or(name).to_string())
            .collect()
    }

    /// Reads array `position`, which must have the given shape.
    pub fn read(&mut self, position: usize, shape: &ArrayShape) -> Result<ArrayLiteral, DataError> {
        let path = &self.path;
        let entry = self.archive.by_index(position).map_err(|error| DataError::data(path, error.to_string()))?;
        let name = entry.name().to_string();
        read_array(entry, shape).map_err(|message| DataError::data(path, format!("array `{name}`: {message}")))
    }
}

/// Writes an array as a `.npy` file.
pub fn write(path: &Path, array: &ArrayLiteral) -> Result<(), DataError> {
    let file = File::create(path).map_err(|source| DataError::write(path, source))?;
    write_array(BufWriter::new(file), array).map_err(|source| DataError::write(path, source))
}

/// How an element type is stored: NumPy's type character and the bytes an element.
fn storage(element_type: ElementType) -> (TypeChar, usize) {
    let native_float = matches!(element_type, ElementType::F16 | ElementType::F32 | ElementType::F64);
    let character = match element_type.class() {
        ElementClass::Predicate => TypeChar::Bool,
        ElementClass::Signed if element_type.bit_width() >= 8 => TypeChar::Int,
        ElementClass::Float if native_float => TypeChar::Float,
        ElementClass::Complex => TypeChar::Complex,
        ElementClass::Signed | ElementClass::Unsigned | ElementClass::Float => TypeChar::Uint,
    };
    (character, element_type.byte_width())
}

/// Whether a file's type character may hold the element type, beyond the one it is written with.
fn is_raw_form(element_type: ElementType, character: TypeChar) -> bool {
    let (native, _) = storage(element_type);
    let narrow = element_type.bit_width() < 8;
    match character {
        TypeChar::RawData => native == TypeChar::Uint && !element_type.is_unsigned_integer() || narrow,
        TypeChar::Int => narrow && element_type.is_signed_integer(),
        TypeChar::Uint => native == TypeChar::Uint || element_type == ElementType::Pred,
        _ => false,
    }
}

/// Brackets of a header that nest: those of a dictionary with a tuple, and of structured types, which are refused later.
const DEEPEST_HEADER: usize = 8;

/// Reads the header. The library's parser takes a time that is exponential in the depth of brackets, so that is limited first.
fn read_header(reader: &mut impl Read) -> Result<NpyHeader, String> {
    let fault = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "not a npy file: it ends within the header".to_string(),
        _ => format!("not a npy file: {error}"),
    };
    let mut start = Vec::new();
    // Magic, version and the length of the header in 2 bytes, from version 2 on in 4.
    reader.by_ref().take(10).read_to_end(&mut start).map_err(fault)?;
    if start.get(6).is_some_and(|&version| version > 1) {
        reader.by_ref().take(2).read_to_end(&mut start).map_err(fault)?;
    }
    let length =
        start.get(8..).unwrap_or_default().iter().rev().fold(0u64, |length, &byte| length << 8 | u64::from(byte));
    reader.by_ref().take(length).read_to_end(&mut start).map_err(fault)?;
    let mut depth = 0usize;
    for byte in start.iter().skip(10) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST_HEADER {
            return Err("not a npy file: brackets of its header nest too deep".to_string());
        }
    }
    NpyHeader::from_reader(&start[..]).map_err(fault)
}

fn read_array(mut reader: impl Read, shape: &ArrayShape) -> Result<ArrayLiteral, String> {
    let header = read_header(&mut reader)?;
    let wanted = ArrayShape { layout: None, ..shape.clone() };
    let dtype = header.dtype();
    let DType::Plain(plain) = &dtype else {
        return Err(format!("expected an array of {wanted}, got a structured type"));
    };
    let (character, width) = storage(shape.element_type);
    let stored = plain.type_char();
    if plain.size_field() != width as u64 || !(stored == character || is_raw_form(shape.element_type, stored)) {
        return Err(format!("expected elements of {} for {wanted}, got `{plain}`", storage_name(shape.element_type)));
    }
    let found: Vec<i64> = header.shape().iter().map(|&size| i64::try_from(size).unwrap_or(i64::MAX)).collect();
    if found != shape.dimensions {
        return Err(format!("expected dimensions {:?} for {wanted}, got {found:?}", shape.dimensions));
    }

    let size = shape.checked_byte_size().ok_or_else(|| format!("the size of {wanted} overflows"))? as usize;
    let mut bytes = literal::reserve(size).map_err(|error| error.to_string())?;
    let mut chunk = vec![0; size.min(1 << 20)];
    while bytes.len() < size {
        let wanted_now = (size - bytes.len()).min(chunk.len());
        match reader.read(&mut chunk[..wanted_now]) {
            Ok(0) => {
                let found = bytes.len();
                return Err(format!("expected {size} bytes of data for {wanted}, the file ends after {found}"));
            }
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
    }

    let swapped = match plain.endianness() {
        Endianness::Little => cfg!(target_endian = "big"),
        Endianness::Big => cfg!(target_endian = "little"),
        Endianness::Irrelevant => false,
    };
    let scalar_width = shape.element_type.real_part().byte_width();
    if swapped && scalar_width > 1 {
        bytes.chunks_exact_mut(scalar_width).for_each(<[u8]>::reverse);
    }
    if header.order() == Order::Fortran && shape.rank() > 1 {
        bytes = row_major_of_column_major(&bytes, shape).map_err(|error| error.to_string())?;
    }
    normalize(shape.element_type, &mut bytes);
    ArrayLiteral::new(wanted, bytes).map_err(|error| error.to_string())
}

/// Brings bytes that a file may hold freely into the representation of literals: 0 or 1, or a narrow integer
/// sign- or zero-extended to its byte.
fn normalize(element_type: ElementType, bytes: &mut [u8]) {
    if element_type == ElementType::Pred || element_type.bit_width() < 8 && element_type.is_integer() {
        for index in 0..bytes.len() {
            let value = Scalar::Unsigned(u64::from(bytes[index]));
            scalar::store(element_type, bytes, index, value);
        }
    } else if element_type.bit_width() < 8 {
        let mask = (1u8 << element_type.bit_width()) - 1;
        bytes.iter_mut().for_each(|byte| *byte &= mask);
    }
}

fn row_major_of_column_major(source: &[u8], shape: &ArrayShape) -> Result<AlignedBytes, LiteralError> {
    let width = shape.element_type.byte_width();
    let rank = shape.rank();
    let mut strides = vec![1usize; rank];
    for dimension in 1..rank {
        strides[dimension] = strides[dimension - 1] * shape.dimensions[dimension - 1] as usize;
    }
    let mut result = literal::reserve(source.len())?;
    let mut index = vec![0i64; rank];
    for _ in 0..shape.element_count() {
        let offset: usize = index.iter().zip(&strides).map(|(&position, stride)| position as usize * stride).sum();
        result.extend_from_slice(&source[offset * width..(offset + 1) * width]);
        for dimension in (0..rank).rev() {
            index[dimension] += 1;
            if index[dimension] < shape.dimensions[dimension] {
                break;
            }
            index[dimension] = 0;
        }
    }
    Ok(result)
}

/// NumPy's name of the type that an element type is stored as, e.g. `<f4`.
fn storage_name(element_type: ElementType) -> String {
    let (character, width) = storage(element_type);
    let order = if width == 1 { '|' } else { '<' };
    format!("`{order}{}{width}`", character.to_str())
}

fn write_array(mut writer: impl Write, array: &ArrayLiteral) -> std::io::Result<()> {
    let name = storage_name(array.element_type());
    let type_string = name.trim_matches('`').parse().map_err(|error| std::io::Error::other(format!("{error}")))?;
    let dimensions: Vec<u64> = array.shape().dimensions.iter().map(|&size| size.max(0) as u64).collect();
    WriteOptions::new_header_only()
        .dtype(DType::Plain(type_string))
        .shape(&dimensions)
        .writer(&mut writer)
        .write_header_only()?;
    writer.write_all(array.bytes())?;
    writer.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hlo::element_type::ElementType::*;

    fn round_trip(array: &ArrayLiteral) -> ArrayLiteral {
        let mut file = Vec::new();
        write_array(&mut file, array).unwrap();
        read_array(&file[..], array.shape()).unwrap()
    }

    #[test]
    fn every_element_type_round_trips() {
        for element_type in ElementType::all() {
            let shape = ArrayShape::new(element_type, [2, 3]);
            let bytes: Vec<u8> = match element_type {
                Pred => vec![0, 1, 1, 0, 1, 0],
                S2 | S4 => vec![0, 1, 0xff, 0xfe, 1, 0],
                _ if element_type.bit_width() < 8 => vec![0, 1, 2, 3, 2, 1],
                _ => (0..shape.byte_size() as u8).collect(),
            };
            let array = ArrayLiteral::from_bytes(shape, &bytes).unwrap();
            assert_eq!(round_trip(&array), array, "{element_type}");
        }
    }

    #[test]
    fn scalars_and_empty_arrays_round_trip() {
        let scalar = ArrayLiteral::scalar(7i32);
        assert_eq!(round_trip(&scalar), scalar);
        let empty = ArrayLiteral::zeros(ArrayShape::new(F32, [0, 3])).unwrap();
        assert_eq!(round_trip(&empty), empty);
    }

    /// A version-1 file as NumPy writes it.
    fn file(dictionary: &str, data: &[u8]) -> Vec<u8> {
        let mut header = dictionary.to_string();
        while !(10 + header.len() + 1).is_multiple_of(64) {
            header.push(' ');
        }
        header.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn big_endian_and_column_major_files_are_brought_to_native_row_major() {
        let data: Vec<u8> = [1i16, 4, 2, 5, 3, 6].iter().flat_map(|value| value.to_be_bytes()).collect();
        let bytes = file("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }", &data);
        let array = read_array(&bytes[..], &ArrayShape::new(S16, [2, 3])).unwrap();
        assert_eq!(array.as_slice::<i16>(), Some(&[1, 2, 3, 4, 5, 6][..]));
    }

    #[test]
    fn types_that_numpy_lacks_are_read_from_void_and_unsigned() {
        for descr in ["<V2", "|V2", "<u2"] {
            let bytes =
                file(&format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (1,), }}"), &[0x80, 0x3f]);
            let array = read_array(&bytes[..], &ArrayShape::new(BF16, [1])).unwrap();
            assert_eq!(array.as_slice::<half::bf16>(), Some(&[half::bf16::ONE][..]), "{descr}");
        }
        for descr in ["|V1", "|u1", "|i1"] {
            let bytes =
                file(&format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (2,), }}"), &[0x0f, 0x07]);
            let array = read_array(&bytes[..], &ArrayShape::new(S4, [2])).unwrap();
            assert_eq!(array.bytes(), [0xff, 0x07], "{descr}");
        }
    }

    #[test]
    fn wrong_types_shapes_and_lengths_are_refused_with_both_values() {
        let shape = ArrayShape::new(F32, [2]);
        let header = |descr: &str, dimensions: &str| {
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {dimensions}, }}")
        };
        let error = |bytes: Vec<u8>| read_array(&bytes[..], &shape).unwrap_err();
        assert_eq!(error(file(&header("<f8", "(2,)"), &[0; 16])), "expected elements of `<f4` for f32[2], got `<f8`");
        assert_eq!(error(file(&header("<u4", "(2,)"), &[0; 8])), "expected elements of `<f4` for f32[2], got `<u4`");
        assert_eq!(error(file(&header("<f4", "(3,)"), &[0; 12])), "expected dimensions [2] for f32[2], got [3]");
        assert_eq!(
            error(file(&header("<f4", "(2,)"), &[0; 5])),
            "expected 8 bytes of data for f32[2], the file ends after 5"
        );
        assert!(error(b"junk".to_vec()).starts_with("not a npy file"));
        assert!(error(file("{'descr': 3}", &[])).starts_with("not a npy file"));
    }

    /// Found by fuzzing: 60 brackets took longer than anybody waits.
    #[test]
    fn a_header_of_nested_brackets_is_refused_at_once() {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0, 100, 0]);
        bytes.extend("{'descr':".bytes().chain(std::iter::repeat_n(b'{', 91)));
        let error = read_from(&bytes[..], &ArrayShape::new(ElementType::F32, [2])).unwrap_err();
        assert_eq!(error, "not a npy file: brackets of its header nest too deep");
    }
}
