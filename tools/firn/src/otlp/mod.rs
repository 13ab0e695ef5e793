//! OpenTelemetry: sends spans and metrics of a server to a collector, by OTLP over HTTP.
//!
//! Spans are those of statements (target `firn_server::statement`) and of flushes, compactions and
//! stalls (target `firn`, [`TracingListener`](firn_kv::TracingListener)). Metrics are those of `/metrics`.
//!
//! Invariants: at most [`MAX_SPANS`] ended spans wait for the collector, further ones are dropped.
//! A collector that does not answer delays nothing in the server.

mod client;
mod metrics;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_kv::fs::Thread;
use firn_kv::{Env, OsEnv};
use firn_server::Server;
use firn_tools::output::{Done, Failure};
use opentelemetry::trace::{SpanKind, TraceContextExt, TraceId, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SamplingResult, SdkTracerProvider,
    ShouldSample,
};
use prost::Message;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::registry::LookupSpan;

use client::CollectorClient;
use metrics::metrics_request;

/// Maximum number of ended spans that wait for the collector.
const MAX_SPANS: usize = 4096;
/// Name of the spans that are sampled.
const STATEMENT: &str = "statement";
/// Interval of checks whether to stop.
const TICK: Duration = Duration::from_millis(100);

/// Samples statements, and takes all other spans.
#[derive(Clone, Debug)]
struct StatementSampler(Sampler);

impl ShouldSample for StatementSampler {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[opentelemetry::trace::Link],
    ) -> SamplingResult {
        let is_root = parent.is_none_or(|p| !p.span().span_context().is_valid());
        let sampler = if is_root && name == STATEMENT { &self.0 } else { &Sampler::AlwaysOn };
        sampler.should_sample(parent, trace, name, kind, attributes, links)
    }
}

/// Connection with a collector.
pub struct Otlp {
    client: CollectorClient,
    spans: SdkTracerProvider,
    every: Duration,
}

impl Otlp {
    /// Prepares the connection with the collector at this URL. It takes this share of the spans of
    /// statements, and sends metrics in this interval.
    ///
    /// # Errors
    /// A URL that is not `http://HOST:PORT`.
    pub fn new(url: &str, share: f64, every: Duration) -> Done<Otlp> {
        let client = CollectorClient::new(url).map_err(|why| {
            let next = "name a collector on this machine or network: http://127.0.0.1:4318";
            Failure::with_next(format!("--otlp {url}: {why}"), next)
        })?;
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(client.clone())
            .with_endpoint(client.url("/v1/traces"))
            .build()
            .map_err(|e| Failure::new(format!("--otlp {url}: {e}")))?;
        let limits = BatchConfigBuilder::default().with_max_queue_size(MAX_SPANS).build();
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(limits).build();
        let sampler = StatementSampler(Sampler::TraceIdRatioBased(share));
        let resource = Resource::builder()
            .with_service_name("firn")
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let spans = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_sampler(sampler)
            .with_resource(resource)
            .build();
        Ok(Otlp { client, spans, every })
    }

    /// Returns the layer that turns spans of `tracing` into those of OpenTelemetry.
    pub fn layer<S: Subscriber + for<'s> LookupSpan<'s>>(&self) -> impl Layer<S> + use<S> {
        let targets = Targets::new()
            .with_target("firn", LevelFilter::INFO)
            .with_target("firn_server", LevelFilter::OFF)
            .with_target("firn_server::statement", LevelFilter::INFO);
        tracing_opentelemetry::layer()
            .with_tracer(self.spans.tracer("firn"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_filter(targets)
    }

    /// Sends the metrics of this server periodically.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn start(self, server: &Arc<Server>) -> Done<OtlpSender> {
        let env: Arc<dyn Env> = OsEnv::new();
        let stopped = Arc::new(AtomicBool::new(false));
        let (clock, server) = (env.clone(), server.clone());
        let (stop, client, every) = (stopped.clone(), self.client.clone(), self.every);
        let work = move || {
            let started = clock.wall_micros() * 1000;
            let (mut due, mut is_lost) = (clock.monotonic_nanos(), false);
            loop {
                let is_last = stop.load(Ordering::SeqCst);
                if is_last || clock.monotonic_nanos() >= due {
                    due = clock.monotonic_nanos() + every.as_nanos() as u64;
                    let now = clock.wall_micros() * 1000;
                    let request = metrics_request(&server.metrics(), started, now);
                    let sent = client.post("/v1/metrics", &request.encode_to_vec());
                    if let Err(e) = &sent
                        && !is_lost
                    {
                        tracing::warn!("metrics were not sent to {}: {e}", client.url(""));
                    }
                    is_lost = sent.is_err();
                }
                if is_last {
                    return;
                }
                clock.sleep(TICK);
            }
        };
        let thread = env.spawn("firn-otlp", Box::new(work))?;
        Ok(OtlpSender { spans: self.spans, stopped, thread })
    }
}

/// Thread that sends metrics, and the spans that are not sent yet.
pub struct OtlpSender {
    spans: SdkTracerProvider,
    stopped: Arc<AtomicBool>,
    thread: Box<dyn Thread>,
}

impl OtlpSender {
    /// Sends the metrics once more.
    pub fn stop(self) -> SdkTracerProvider {
        self.stopped.store(true, Ordering::SeqCst);
        self.thread.join();
        self.spans
    }
}
