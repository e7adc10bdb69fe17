//! The Mandelbrot set as a PNG image. Arguments: the file, `mandelbrot.png` by default.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use halo::builder::HloBuilder;
use halo::{Client, CompileOptions, ElementType, Module, Shape};

const WIDTH: i64 = 768;
const HEIGHT: i64 = 512;
const STEPS: i64 = 100;

/// The number of steps of z = z² + c that each point stays near 0, as grey values.
fn program() -> Result<Module, Box<dyn std::error::Error>> {
    let b = HloBuilder::new("mandelbrot");
    let image = Shape::of::<f32>([HEIGHT, WIDTH]);
    let real = b.iota(image.clone(), 1) * (3.0 / WIDTH as f64) - 2.25;
    let imaginary = b.iota(image.clone(), 0) * (2.0 / HEIGHT as f64) - 1.0;
    let zeros = b.broadcast(b.constant(0f32), &[HEIGHT, WIDTH]);
    let start = b.tuple(&[b.constant(0i32), zeros, zeros, zeros, real, imaginary]);
    let end = b.while_(
        start,
        |_, state| state.get(0).lt(STEPS),
        |b, state| {
            let [step, x, y, count, real, imaginary] = [0, 1, 2, 3, 4, 5].map(|index| state.get(index));
            let is_near = (x * x + y * y).le(4.0);
            let count = count + is_near.convert(ElementType::F32);
            // A point that left stays where it is, or it would overflow.
            let moved = |new, old| b.select(is_near, new, old);
            let (next_x, next_y) = (x * x - y * y + real, x * y * 2.0 + imaginary);
            b.tuple(&[step + 1, moved(next_x, x), moved(next_y, y), count, real, imaginary])
        },
    );
    let grey = (end.get(3) / STEPS).sqrt() * 255.0;
    Ok(b.build((255.0 - grey).convert(ElementType::U8))?)
}

fn write_png(path: &Path, pixels: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
    let mut encoder = png::Encoder::new(BufWriter::new(File::create(path)?), WIDTH as u32, HEIGHT as u32);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(pixels)?;
    Ok(())
}

/// Computes and writes the image.
pub fn run(arguments: &[PathBuf]) -> super::Outcome {
    let path = arguments.first().map_or(Path::new("mandelbrot.png"), PathBuf::as_path);
    let executable = Client::cpu()?.compile(&program()?, &CompileOptions::default())?;
    let image = executable.execute(())?;
    let pixels = image.as_slice::<u8>().ok_or("the image is of bytes")?;
    write_png(path, pixels)?;
    let inside = pixels.iter().filter(|&&pixel| pixel == 0).count();
    Ok(format!("{}: {inside} of {} points are in the set", path.display(), pixels.len()))
}
