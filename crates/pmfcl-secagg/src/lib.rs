//! Secure aggregation of summaries: a server learns the *sum* of its clients' summaries, exactly, and nothing else of them.
//!
//! The protocol is that of Bonawitz et al., *Practical Secure Aggregation for Privacy-Preserving Machine Learning* (CCS 2017), for a server
//! that is curious and keeps to the protocol. Every client adds two kinds of masks to its numbers: one it has in common with each other
//! client, which cancel in the sum, and one of its own. Keys to both are shared out, `t` of `n`; for every client the others give up one
//! kind or the other, never both.
//!
//! ```text
//!            client                                                            server
//! 0  advertise()       ── two public keys ─────────────────────────▶  collect_keys
//!    share(roster)     ◀───────────── everyone's public keys ───────  roster()
//! 1                    ── a sealed letter to each other client ────▶  collect_shares
//!    masked(inbox, …)  ◀───────────────── letters to this client ───  inbox(client)
//! 2                    ── sums of products + masks, mod 2¹²⁸ ──────▶  collect_masked
//!    unmask(survivors) ◀────────── who has sent one, who has not ───  survivors()
//! 3                    ── one share for each of them ──────────────▶  collect_answer
//!                                                                     finish() ─▶ Total ─▶ Summary
//! ```
//!
//! Both sides are plain values that take bytes and give bytes; there is no transport, no clock and no thread here. A client may drop out
//! after any message: the sum is over those whose masked input came, as long as `t` of them also answer. Between two messages a client can
//! be put away with [`Client::to_bytes`], which is as secret as its rows.
//!
//! ```
//! use pmfcl::federated::{Rules, Update};
//! use pmfcl::problem::{Agreement, Problem};
//! use pmfcl::{Design, Rows, Settings, TaskRows};
//! use pmfcl_secagg::{Client, Input, Params, Server, SysRng};
//!
//! let design = Design::linear(1, true)?;
//! let agreement = Agreement::new(Problem::squared(), Settings::default(), design, 1)?;
//! let params = Params::new(2, 3, agreement.design().width(), 1)?.of(agreement.digest(), 0);
//! let rows = [("east", [1.0, 2.0], [2.1, 3.9]), ("north", [3.0, 4.0], [6.0, 8.1]), ("south", [5.0, 6.0], [9.9, 12.0])];
//!
//! let mut server = Server::new("run 7, step 0", params)?;
//! let mut clients = Vec::new();
//! for (name, ..) in rows {
//!     let client = Client::new("run 7, step 0", name, params, &mut SysRng)?;
//!     server.collect_keys(&client.advertise()?)?;
//!     clients.push(client);
//! }
//! let roster = server.roster()?;
//! for client in &mut clients {
//!     server.collect_shares(&client.share(&roster)?)?;
//! }
//! for (client, (name, x, y)) in clients.iter_mut().zip(rows) {
//!     let own = agreement.summarize(TaskRows::new(Rows::new(&x, 1)?, Rows::new(&y, 1)?))?;
//!     let inbox = server.inbox(name)?;
//!     let products = own.quadratic.products();
//!     let input = Input { agreement: agreement.digest(), step: 0, products: &products };
//!     server.collect_masked(&client.masked(&inbox, &input)?)?;
//! }
//! let survivors = server.survivors()?;
//! for client in &mut clients {
//!     server.collect_answer(&client.unmask(&survivors)?)?;
//! }
//! let total = server.finish()?;
//! assert_eq!(total.clients, ["east", "north", "south"]);
//!
//! // From here on as with any update; the cohort is the client.
//! let mut register = pmfcl::federated::Server::new(agreement.clone(), Rules::default())?;
//! register.accept(Update::of_quadratic(&agreement, "cohort", 0, total.summary()?)?).expect("a sound update");
//! assert!((register.joint()?.predict(Rows::new(&[7.0], 1)?)?[0] - 14.0).abs() < 0.2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is protected, from whom
//!
//! From a server that keeps to the protocol and looks at all it gets, together with any `t − 1` clients or fewer that tell it all they
//! have: they learn the sum over the clients that stayed, hence the sum over the *other* ones among them, and nothing else of any of those.
//! Clients learn nothing but each other's names and public keys. This rests on X25519, HKDF with SHA-256, `ChaCha20` and `ChaCha20-Poly1305`, on
//! the operating system's random numbers, and on a transport that says who sent what and keeps letters and answers to server and client (TLS).
//!
//! # What is not
//!
//! - **A server that lies**, in a round without signatures. It can invent clients: with `t − 1` of its own and one real one, the sum is the
//!   real one's. It can also show clients different inboxes and lists of survivors; a client refuses what contradicts itself and answers once,
//!   but does not know what others were told. A transport that knows its clients does not help: Flower's `SuperNode` authentication tells the
//!   *server* who a client is, while clients take each other's keys from the server. See below.
//! - **A client that lies** about its rows is believed within the agreed range, and cannot be found afterwards. One that answers with
//!   wrong shares costs its share: the server tries other sets of answers against what every client has committed to, as long as a threshold
//!   of true ones is among them. One that *deals* wrong shares of its own secrets can stop a round, not bend its sum, and is named.
//! - **What the sum itself shows.** It is a summary, and all that is said of summaries holds: that of few rows shows them. The sum of two
//!   clients shows each the other. Two cohorts that differ by one client show that client: take the same cohort or wholly other ones, a
//!   threshold well above two, and each step of a client in one round only. Noise, as differential privacy asks, is not added.
//! - **Who takes part** and when, which is known to the server, and the shape of the design.
//!
//! # Signed rounds
//!
//! With [`Params::signed`] clients sign their keys (Ed25519), and after round 2 the list of survivors: `confirm(survivors)` gives a signature,
//! `collect_confirmation` takes it, `confirmations()` gives all of them, and `unmask` takes these in place of the list and answers when `t`
//! survivors have signed the very same one. Each client has an [`Identity`]: its own key, and the public keys of the others, *which must have
//! come by another way than this server*. That is the paper's remedy against a server that lies: it can neither invent clients nor tell
//! two stories, as long as fewer than `2t − n` of the `n` clients on the roster are on its side; up to a third of them for `t` above two
//! thirds. It can still stop a round, choose who is in it, and run another: clients should take part in one round per step.
//!
//! # What is given up
//!
//! A server that holds a sum cannot take one client out of it, nor say what a client has forgotten: the cohort is the smallest thing it knows.
//! Its [`Rules`](pmfcl::federated::Rules) see the cohort too, not the client. Log-loss needs more than sums and is not offered.
//!
//! Sums are of products, `XᵀX`, because square roots do not add: that squares the condition number. Against the model of pooled rows,
//! predictions differ by 5·10⁻¹⁵ of a standard deviation at a condition number of 10, 2·10⁻¹³ at 10³, 7·10⁻⁹ at 10⁵ and 8·10⁻⁵ at 10⁷
//! (`tests/secagg/rounds.rs` prints them); beyond, columns begin to count as dependent. Features centred and scaled to about one keep the digits.
//! The fixed point ([`FixedPoint`]) adds nothing to that for numbers of ordinary size. The sum is exact: no order of clients changes a bit.
//!
//! Cost: with `L = 1 + m(m+1)/2 + mp + 2p` numbers, a client sends `16 L + 84 n` bytes and makes `n` masks of `L` numbers; the server makes
//! one mask for each survivor and one for each pair of a survivor and a dropped client (`examples/cost.rs`).

#![warn(clippy::unwrap_used)]

mod client;
mod error;
mod fixed;
mod identity;
mod keys;
mod mask;
mod numbers;
mod params;
mod roster;
mod server;
mod sharing;
mod wire;

pub use client::{Client, Input};
pub use error::{Error, Result};
pub use fixed::FixedPoint;
pub use getrandom::SysRng;
pub use identity::Identity;
pub use numbers::as_products;
pub use params::Params;
pub use server::{Server, Total};
