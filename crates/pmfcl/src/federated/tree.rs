//! A pool that does not depend on the order of arrival, at a cost that does not grow with what arrived before.
//!
//! Tasks are divided over 32 leaves by a hash of client and step. A leaf is pooled in the order of client and step, leaves are merged
//! pairwise along a fixed tree: the same set of tasks gives the same bits, and one more task costs one leaf and five merges.

use std::sync::Arc;

use crate::error::Result;
use crate::problem::{Part, Pool, Pooling};

const LEAVES: usize = 32;

/// A node of the tree.
#[derive(Debug, Clone)]
enum Node {
    /// To be made again.
    Stale,
    /// The pool of all tasks below it; `None` where there are none.
    Made(Option<Arc<Pool>>),
}

/// The pools of the leaves and of the nodes above them, each made when first asked for after a change.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    /// Node 1 is the root, nodes `i` has the children `2i` and `2i + 1`; leaves begin at [`LEAVES`].
    nodes: Vec<Node>,
}

impl Default for Tree {
    fn default() -> Self {
        Self { nodes: vec![Node::Stale; 2 * LEAVES] }
    }
}

impl Tree {
    /// Notes that the tasks of this client and step have changed.
    pub(super) fn mark_stale(&mut self, client: &str, step: u64) {
        let mut at = LEAVES + leaf(client, step);
        while at > 0 {
            self.nodes[at] = Node::Stale;
            at /= 2;
        }
    }

    /// Notes that all weights have changed.
    pub(super) fn mark_all_stale(&mut self) {
        self.nodes.fill(Node::Stale);
    }

    /// The pool of all tasks; `tasks` gives those of a leaf in the order of client and step. `None` where there are none.
    pub(super) fn pool<'a>(
        &mut self,
        shape: (usize, usize),
        tasks: &dyn Fn(usize) -> Vec<Part<'a>>,
    ) -> Result<Option<Arc<Pool>>> {
        self.node(1, shape, tasks)
    }

    fn node<'a>(
        &mut self,
        at: usize,
        shape: (usize, usize),
        tasks: &dyn Fn(usize) -> Vec<Part<'a>>,
    ) -> Result<Option<Arc<Pool>>> {
        if let Node::Made(known) = &self.nodes[at] {
            return Ok(known.clone());
        }
        let made = if at >= LEAVES {
            match &tasks(at - LEAVES)[..] {
                [] => None,
                parts => Some(Arc::new(Pool::with_tasks(None, shape, parts, Pooling::Triangles)?)),
            }
        } else {
            match (self.node(2 * at, shape, tasks)?, self.node(2 * at + 1, shape, tasks)?) {
                (Some(a), Some(b)) => Some(Arc::new(a.merge(&b)?)),
                (a, b) => a.or(b),
            }
        };
        self.nodes[at] = Node::Made(made.clone());
        Ok(made)
    }
}

/// The leaf of a client's step.
pub(super) fn leaf(client: &str, step: u64) -> usize {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in client.bytes().chain([0]).chain(step.to_le_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    (hash ^ (hash >> 29)) as usize % LEAVES
}
