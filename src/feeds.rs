//! The host's ends of the queues between programs and their host: `infeed`, `outfeed`, and the channels of `send` and `recv`.
//!
//! Every executable has its own infeed and outfeed; channels are those of the client, so that one program may send what
//! another receives. While an [`Infeed`] exists, a program that reads waits for values; without one, it fails where the
//! queue is empty.

use std::sync::Arc;

use exec::runtime::feeds::{Feed, FeedArray, FeedSender, FeedValue};
use hlo::element_type::ElementType;
use hlo::literal::{ArrayLiteral, Literal};
use hlo::shape::ArrayShape;

use crate::client::Client;
use crate::error::Error;
use crate::executable::Executable;

/// The end of a queue where values go in.
#[derive(Debug)]
pub struct Infeed {
    sender: FeedSender,
}

/// The end of a queue where values come out.
#[derive(Clone, Debug)]
pub struct Outfeed {
    feed: Arc<Feed>,
}

impl Executable {
    /// The queue that the program's `infeed` operations read.
    pub fn infeed(&self) -> Infeed {
        Infeed { sender: FeedSender::new(&self.state().feeds.infeed) }
    }

    /// The queue that the program's `outfeed` operations write.
    pub fn outfeed(&self) -> Outfeed {
        Outfeed { feed: Arc::clone(&self.state().feeds.outfeed) }
    }
}

impl Client {
    /// The queue of a channel, which `recv` operations of the client's programs read.
    pub fn channel_infeed(&self, channel: i64) -> Infeed {
        Infeed { sender: FeedSender::new(&self.inner.channels.queue(channel)) }
    }

    /// The queue of a channel, which `send` operations of the client's programs write: what no program receives.
    pub fn channel_outfeed(&self, channel: i64) -> Outfeed {
        Outfeed { feed: self.inner.channels.queue(channel) }
    }
}

impl Infeed {
    /// Adds a value, an array or a tuple of arrays, which one `infeed` or `recv` reads.
    ///
    /// # Errors
    /// [`Error::Elided`] for constants without a value.
    pub fn push(&self, value: &Literal) -> Result<(), Error> {
        let mut arrays = FeedValue::new();
        for leaf in value.leaves() {
            match leaf {
                Literal::Array(array) => arrays.push(FeedArray {
                    element_type: array.element_type().primitive_type(),
                    dimensions: array.shape().dimensions.clone(),
                    bytes: array.bytes().to_vec(),
                }),
                Literal::Elided(shape) => return Err(Error::Elided(shape.to_string())),
                Literal::Tuple(_) | Literal::Token => {}
            }
        }
        self.sender.push(arrays);
        Ok(())
    }
}

impl Outfeed {
    /// Takes the first value: an array, or the arrays of a tuple as a tuple. `None` if there is none yet.
    pub fn try_pop(&self) -> Option<Literal> {
        self.feed.try_pop().and_then(literal)
    }

    /// Takes the first value, and waits for it as long as a run that was started with
    /// [`execute_async`](Executable::execute_async) is not done. `None` if none comes any more.
    pub fn pop(&self) -> Option<Literal> {
        self.feed.pop().and_then(literal)
    }

    /// Announces a run that may write to the queue.
    pub(crate) fn writer(&self) -> FeedSender {
        FeedSender::new(&self.feed)
    }
}

/// A value of a queue. Compiled code writes arrays whose bytes fit their shapes.
fn literal(mut value: FeedValue) -> Option<Literal> {
    let array = |array: FeedArray| {
        let element_type = ElementType::all().find(|&other| other.primitive_type() == array.element_type)?;
        let shape = ArrayShape::new(element_type, array.dimensions);
        ArrayLiteral::from_bytes(shape, &array.bytes).ok().map(Literal::Array)
    };
    match value.len() {
        1 => value.pop().and_then(array),
        _ => value.into_iter().map(array).collect::<Option<Vec<_>>>().map(Literal::Tuple),
    }
}
