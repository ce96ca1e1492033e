//! Files compressed with Zstandard: frames, one behind the other.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::{
    FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};

/// Bytes that are decompressed before they are handed on.
const AT_ONCE: usize = 1 << 17;

/// Reads the text of all frames. A frame that needs a window of more than 100 MiB is refused by the decoder.
pub(super) struct Frames<R> {
    source: R,
    decoder: FrameDecoder,
    is_within: bool,
}

impl<R: BufRead> Frames<R> {
    pub(super) fn new(source: R) -> Frames<R> {
        Frames {
            source,
            decoder: FrameDecoder::new(),
            is_within: false,
        }
    }

    // Enters the next frame; returns whether there is one.
    fn enter(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.source) {
                Ok(()) => return Ok(true),
                // Of a frame for other programs, only its head has been read.
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    let skipped = io::copy(&mut (&mut self.source).take(length), &mut io::sink())?;
                    if skipped < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(fault(error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        use ruzstd::decoding::BlockDecodingStrategy::UptoBytes;
        loop {
            if !self.is_within && !self.enter()? {
                return Ok(0);
            }
            self.is_within = true;
            if self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let decoded = self
                    .decoder
                    .decode_blocks(&mut self.source, UptoBytes(AT_ONCE));
                decoded.map_err(fault)?;
            }
            let read = self.decoder.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            if self.decoder.is_finished() {
                let (stated, found) = (
                    self.decoder.get_checksum_from_data(),
                    self.decoder.get_calculated_checksum(),
                );
                if stated.is_some() && stated != found {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        format!(
                            "a frame has the checksum {:08x}, its end states {:08x}",
                            found.unwrap_or(0),
                            stated.unwrap_or(0)
                        ),
                    ));
                }
                self.is_within = false;
            }
        }
    }
}

fn fault(error: FrameDecoderError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("zstd: {error}"))
}
