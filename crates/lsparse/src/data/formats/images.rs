//! Cut a folder of images into small square patches, as the experiments of hughes2016sparse (refs.bib) do.
//!
//! Images are kept in memory as bytes; a patch becomes numbers only when it is read.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use image::{ImageError, ImageFormat, ImageReader, Limits};
use rayon::prelude::*;

use crate::error::{Error, Result, brief};

use crate::data::{Element, RowSource, Rows, Scalar, check_read};

/// Wider or higher images are taken for an attempt to exhaust the memory.
const MAX_SIDE: u32 = 1 << 15;

/// Bytes that decoding one image may take.
const MAX_DECODE_BYTES: u64 = 1 << 29;

/// Pixels for every byte of a file at most: the packing of PNG and JPEG cannot do better than a thousand.
const MAX_PIXELS_A_BYTE: u64 = 2048;

/// Which patches of an image are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PatchGrid {
    /// The paper's `floor((side - size) / stride)` in each direction.
    #[default]
    Paper,
    /// All that fit: one more in each direction.
    Full,
}

/// How patches are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchOptions {
    /// Side of a patch in pixels.
    pub size: usize,
    /// Pixels from one patch to the next.
    pub stride: usize,
    /// Which patches are taken.
    pub grid: PatchGrid,
    /// Whether the mean of each patch is taken off.
    pub remove_mean: bool,
}

impl Default for PatchOptions {
    fn default() -> Self {
        PatchOptions { size: 8, stride: 4, grid: PatchGrid::Paper, remove_mean: true }
    }
}

impl PatchOptions {
    /// Whether the options can be used.
    pub fn check(&self) -> Result<()> {
        let config = |setting, value: usize, remedy: &str| Error::Config {
            setting,
            problem: format!("{value} cannot be used"),
            remedy: remedy.to_owned(),
        };
        // A patch of one pixel less its mean is nothing.
        let smallest = if self.remove_mean { 2 } else { 1 };
        if self.size < smallest || self.size > 256 {
            let remedy = format!("choose a side from {smallest} to 256 pixels");
            return Err(config("patch size", self.size, &remedy));
        }
        if self.stride == 0 || self.stride > MAX_SIDE as usize {
            return Err(config("patch stride", self.stride, "choose at least 1 pixel"));
        }
        Ok(())
    }

    /// Patches along a side of so many pixels.
    fn along(&self, side: usize) -> usize {
        match (side.checked_sub(self.size), self.grid) {
            (None, _) => 0,
            (Some(room), PatchGrid::Paper) => room / self.stride,
            (Some(room), PatchGrid::Full) => room / self.stride + 1,
        }
    }
}

/// One image in grey.
#[derive(Debug)]
struct Grey {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

/// The patches of all images of a folder: image by image, from top to bottom, from left to right.
///
/// A row is a patch line by line, grey in [0, 1], less its mean unless the options say otherwise.
#[derive(Debug)]
pub struct ImagePatches {
    name: String,
    options: PatchOptions,
    images: Vec<Grey>,
    /// The names of their files; none of images in memory.
    files: Vec<String>,
    /// The row that each image's patches start at, and where the last ones end.
    starts: Vec<usize>,
    /// What people should know about it.
    note: Option<String>,
}

impl ImagePatches {
    /// Read all PNG and JPEG images of a folder, sorted by name; other files, hidden files and
    /// folders within are passed over.
    pub fn open(folder: &Path, options: &PatchOptions) -> Result<Self> {
        options.check()?;
        let (paths, note) = image_paths(folder)?;
        let loaded: Vec<Result<Grey>> = paths.par_iter().map(|path| load(path, options)).collect();
        let images = loaded.into_iter().collect::<Result<Vec<Grey>>>()?;
        let files =
            paths.iter().map(|path| path.file_name().unwrap_or_default().to_string_lossy().into_owned()).collect();
        Ok(ImagePatches { files, note, ..Self::assemble(folder.display().to_string(), images, options) })
    }

    /// The patches of grey images in memory, each as width, height and its pixels line by line; `name` is for messages.
    pub fn from_pixels(
        name: impl Into<String>,
        images: Vec<(usize, usize, Vec<u8>)>,
        options: &PatchOptions,
    ) -> Result<Self> {
        options.check()?;
        let name = name.into();
        for (width, height, pixels) in &images {
            let fits = options.along(*width) > 0 && options.along(*height) > 0;
            if !fits || width.checked_mul(*height) != Some(pixels.len()) {
                return Err(Error::WrongShape {
                    name,
                    found: format!("{} pixels for an image of {width} x {height}", pixels.len()),
                    expected: format!("width x height pixels, with room for patches of {0} x {0}", options.size),
                    remedy: "give whole images that are large enough".to_owned(),
                });
            }
        }
        if images.is_empty() {
            return Err(Error::NoRows { name });
        }
        let images = images.into_iter().map(|(width, height, pixels)| Grey { width, height, pixels }).collect();
        Ok(Self::assemble(name, images, options))
    }

    fn assemble(name: String, images: Vec<Grey>, options: &PatchOptions) -> Self {
        let mut starts = vec![0];
        let mut total = 0;
        for image in &images {
            total += options.along(image.width) * options.along(image.height);
            starts.push(total);
        }
        ImagePatches { name, options: options.clone(), images, files: Vec::new(), starts, note: None }
    }

    /// Images read.
    pub fn num_images(&self) -> usize {
        self.images.len()
    }

    fn append<T: Scalar>(&self, start: usize, count: usize, out: &mut Rows<T>) -> Result<()> {
        check_read(self, start, count, out)?;
        let mut patch: Vec<T> = Vec::with_capacity(self.dim());
        let mut number = self.starts.partition_point(|&first| first <= start) - 1;
        for row in start..start + count {
            // Every image has patches, so the next row is at most one image on.
            if row >= self.starts[number + 1] {
                number += 1;
            }
            patch.clear();
            self.cut(&self.images[number], row - self.starts[number], &mut patch);
            out.push_dense(&patch);
        }
        Ok(())
    }

    /// Append the values of one patch of an image.
    fn cut<T: Scalar>(&self, image: &Grey, number: usize, patch: &mut Vec<T>) {
        let PatchOptions { size, stride, remove_mean, .. } = self.options;
        let across = self.options.along(image.width);
        let (top, left) = (number / across * stride, number % across * stride);
        let lines = || {
            let starts = (top..top + size).map(|y| y * image.width + left);
            starts.map(|start| &image.pixels[start..start + size])
        };
        // Whole numbers up to here, so the mean is exact but for one rounding.
        let sum: u32 = lines().flatten().map(|&pixel| u32::from(pixel)).sum();
        let mean = if remove_mean { f64::from(sum) / (size * size) as f64 } else { 0.0 };
        let scaled = |&pixel: &u8| T::from_f64((f64::from(pixel) - mean) / 255.0);
        for line in lines() {
            patch.extend(line.iter().map(scaled));
        }
    }
}

impl RowSource for ImagePatches {
    fn name(&self) -> &str {
        &self.name
    }

    fn num_rows(&self) -> usize {
        self.starts[self.images.len()]
    }

    fn dim(&self) -> usize {
        self.options.size * self.options.size
    }

    fn element(&self) -> Element {
        Element::F32
    }

    fn is_sparse(&self) -> bool {
        false
    }

    fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// The file, and the pixel at the top left of the patch.
    fn row_name(&self, row: usize) -> Option<String> {
        let number = self.starts.partition_point(|&first| first <= row) - 1;
        let (file, patch) = (self.files.get(number)?, row - self.starts[number]);
        let across = self.options.along(self.images[number].width);
        let (top, left) = (patch / across * self.options.stride, patch % across * self.options.stride);
        Some(format!("{file} at {left}, {top}"))
    }

    fn read_f32(&self, start: usize, count: usize, out: &mut Rows<f32>) -> Result<()> {
        self.append(start, count, out)
    }

    fn read_f64(&self, start: usize, count: usize, out: &mut Rows<f64>) -> Result<()> {
        self.append(start, count, out)
    }
}

/// Whether the name is that of an image that is read.
pub(crate) fn is_image(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
    extension == "png" || extension == "jpg" || extension == "jpeg"
}

/// Endings of images that are not read.
const OTHER_IMAGES: [&str; 8] = ["bmp", "gif", "tif", "tiff", "webp", "ppm", "pgm", "heic"];

/// The images of a folder that are read, and a note on those that are not.
fn image_paths(folder: &Path) -> Result<(Vec<PathBuf>, Option<String>)> {
    let failed = |source| Error::Io { path: folder.to_owned(), action: "list", source };
    let (mut paths, mut others) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let hidden = path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"."));
        if is_image(&path) && !hidden && path.is_file() {
            paths.push(path);
        } else if !hidden && path.extension().is_some_and(|e| OTHER_IMAGES.iter().any(|o| e.eq_ignore_ascii_case(o))) {
            others.push(path);
        }
    }
    others.sort();
    let note = others.first().map(|first| {
        let (folder, first) = (folder.display(), first.file_name().unwrap_or_default().to_string_lossy());
        format!("{folder}: only PNG and JPEG images are read; {} others are not, such as {first}", others.len())
    });
    if paths.is_empty() {
        return Err(Error::Format {
            path: folder.to_owned(),
            detail: "the folder holds no PNG or JPEG images".to_owned(),
            remedy: "give the folder that the images lie in, folders within are not searched".to_owned(),
        });
    }
    paths.sort();
    Ok((paths, note))
}

/// Whether the end-of-image marker stands near the end of a file. Decoders make up what is missing without a word;
/// within compressed data the marker cannot occur, so a file that was cut has none.
fn ends_as_jpeg(path: &Path) -> io::Result<bool> {
    const TAIL: u64 = 4096;
    let mut file = File::open(path)?;
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    Ok(tail.windows(2).any(|pair| pair == [0xFF, 0xD9]))
}

/// Refuse a size that the file is too short for, before memory is taken for it. What has no size is left to the decoder.
fn check_size(path: &Path, format: Option<ImageFormat>) -> Result<()> {
    let Some(format) = format else { return Ok(()) };
    let io_error = |source: io::Error| Error::Io { path: path.to_owned(), action: "read", source };
    let file = File::open(path).map_err(io_error)?;
    let length = file.metadata().map_err(io_error)?.len();
    let size = ImageReader::with_format(io::BufReader::new(file), format).into_dimensions();
    match size {
        Ok((width, height)) if u64::from(width) * u64::from(height) > MAX_PIXELS_A_BYTE.saturating_mul(length) => {
            Err(Error::Format {
                path: path.to_owned(),
                detail: format!("the image says it has {width} x {height} pixels, but the file has {length} bytes"),
                remedy: "copy the image again, or move it out of the folder".to_owned(),
            })
        }
        _ => Ok(()),
    }
}

fn load(path: &Path, options: &PatchOptions) -> Result<Grey> {
    let io_error = |source: io::Error| Error::Io { path: path.to_owned(), action: "read", source };
    let mut reader = ImageReader::open(path).and_then(ImageReader::with_guessed_format).map_err(io_error)?;
    if reader.format() == Some(ImageFormat::Jpeg) && !ends_as_jpeg(path).map_err(io_error)? {
        return Err(Error::Format {
            path: path.to_owned(),
            detail: "the image is cut short".to_owned(),
            remedy: "copy the image again, or move it out of the folder".to_owned(),
        });
    }
    check_size(path, reader.format())?;
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_DECODE_BYTES);
    reader.limits(limits);
    let image = reader.decode().map_err(|error| {
        let remedy = match error {
            ImageError::Limits(_) => "scale the image down",
            _ => "mend the image, or move it out of the folder",
        };
        Error::Format {
            path: path.to_owned(),
            detail: format!("the image cannot be read ({})", brief(error)),
            remedy: remedy.to_owned(),
        }
    })?;
    let grey = image.into_luma8();
    let (width, height) = (grey.width() as usize, grey.height() as usize);
    if options.along(width) == 0 || options.along(height) == 0 {
        let needed = match options.grid {
            PatchGrid::Paper => options.size + options.stride,
            PatchGrid::Full => options.size,
        };
        return Err(Error::Format {
            path: path.to_owned(),
            detail: format!("{width} x {height} pixels are too few for a patch"),
            remedy: match options.grid {
                PatchGrid::Paper if width >= options.size && height >= options.size => format!(
                    "take the patches at the edges too (`patch-grid full`), give images of {needed} x {needed} pixels or \
                     more, or move this one away"
                ),
                _ => format!("give images of {needed} x {needed} pixels or more, or move this one away"),
            },
        });
    }
    Ok(Grey { width, height, pixels: grey.into_raw() })
}

#[cfg(test)]
mod tests {
    use image::{GrayImage, Luma, Rgb, RgbImage};

    use super::*;

    fn shade(seed: u32, x: u32, y: u32) -> u8 {
        ((x * 7 + y * 13 + x * y + seed * 31) % 251) as u8
    }

    fn write_grey(folder: &Path, name: &str, seed: u32, width: u32, height: u32) {
        let image = GrayImage::from_fn(width, height, |x, y| Luma([shade(seed, x, y)]));
        image.save(folder.join(name)).unwrap();
    }

    #[test]
    fn an_image_that_was_cut_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        write_grey(folder.path(), "whole.jpg", 1, 64, 64);
        assert!(ImagePatches::open(folder.path(), &PatchOptions::default()).is_ok());
        let bytes = fs::read(folder.path().join("whole.jpg")).unwrap();
        fs::write(folder.path().join("whole.jpg"), &bytes[..bytes.len() / 2]).unwrap();
        let error = ImagePatches::open(folder.path(), &PatchOptions::default()).unwrap_err();
        assert!(error.to_string().contains("whole.jpg"), "{error}");
    }

    #[test]
    fn patches_agree_with_a_plain_computation() {
        let folder = tempfile::tempdir().unwrap();
        write_grey(folder.path(), "b.png", 2, 21, 17);
        write_grey(folder.path(), "a.PNG", 1, 13, 30);
        fs::write(folder.path().join("notes.txt"), "not an image").unwrap();
        fs::write(folder.path().join("._b.png"), "not an image").unwrap();
        fs::create_dir(folder.path().join("c.png")).unwrap();
        for grid in [PatchGrid::Paper, PatchGrid::Full] {
            let options = PatchOptions { grid, ..PatchOptions::default() };
            let source = ImagePatches::open(folder.path(), &options).unwrap();
            let mut expected = Vec::new();
            for (seed, width, height) in [(1, 13, 30), (2, 21, 17)] {
                let more = u32::from(grid == PatchGrid::Full);
                for i in 0..(height - 8) / 4 + more {
                    for j in 0..(width - 8) / 4 + more {
                        let pixels: Vec<f64> = (0..64)
                            .map(|p| shade(seed, 4 * j + p % 8, 4 * i + p / 8))
                            .map(|pixel| f64::from(pixel) / 255.0)
                            .collect();
                        let mean = pixels.iter().sum::<f64>() / 64.0;
                        expected.extend(pixels.iter().map(|pixel| pixel - mean));
                    }
                }
            }
            assert_eq!((source.num_images(), source.dim()), (2, 64));
            assert_eq!(source.num_rows() * 64, expected.len());
            let mut out = Rows::dense(64);
            source.read_f64(0, source.num_rows(), &mut out).unwrap();
            let values = out.as_dense().unwrap();
            assert!(values.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-14));
            // Any stretch is the same as that part of the whole.
            let mut part = Rows::dense(64);
            source.read_f64(3, source.num_rows() - 4, &mut part).unwrap();
            assert_eq!(part.as_dense().unwrap(), &values[3 * 64..values.len() - 64]);
        }
    }

    #[test]
    fn the_paper_counts_9204_patches_an_image() {
        let folder = tempfile::tempdir().unwrap();
        RgbImage::from_pixel(481, 321, Rgb([9, 9, 9])).save(folder.path().join("x.jpg")).unwrap();
        let options = PatchOptions { remove_mean: false, ..PatchOptions::default() };
        let source = ImagePatches::open(folder.path(), &options).unwrap();
        assert_eq!(source.num_rows(), 9204);
        let mut out = Rows::dense(64);
        source.read_f32(9203, 1, &mut out).unwrap();
        assert_eq!(out.as_dense().unwrap(), [9.0 / 255.0; 64]);
    }

    #[test]
    fn errors_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let message = |options: &PatchOptions| ImagePatches::open(folder.path(), options).unwrap_err().to_string();
        let options = PatchOptions::default();
        assert!(message(&options).contains("no PNG or JPEG images"));
        write_grey(folder.path(), "small.png", 1, 40, 7);
        assert!(!message(&options).contains("patch-grid"));
        write_grey(folder.path(), "small.png", 1, 40, 11);
        let text = message(&options);
        assert!(text.contains("`patch-grid full`"), "{text}");
        assert!(text.contains("small.png: 40 x 11 pixels are too few"), "{text}");
        fs::remove_file(folder.path().join("small.png")).unwrap();
        write_grey(folder.path(), "broken.png", 1, 40, 40);
        let bytes = fs::read(folder.path().join("broken.png")).unwrap();
        fs::write(folder.path().join("broken.png"), &bytes[..bytes.len() / 2]).unwrap();
        assert!(message(&options).contains("broken.png: the image cannot be read"));
        let none = PatchOptions { stride: 0, ..options.clone() };
        assert!(message(&none).contains("patch stride"));
        assert!(message(&PatchOptions { size: 0, ..options }).contains("patch size"));
    }

    #[test]
    fn an_image_that_claims_to_be_huge_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("huge.png");
        write_grey(folder.path(), "huge.png", 1, 40, 40);
        let mut bytes = fs::read(&path).unwrap();
        // Width and height lie after the signature and the head of the first chunk.
        bytes[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
        fs::write(&path, bytes).unwrap();
        assert!(ImagePatches::open(folder.path(), &PatchOptions::default()).is_err());
    }
}
