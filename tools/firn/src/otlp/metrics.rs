//! Converts metrics in the text format of Prometheus to OTLP: counters to sums, gauges, histograms
//! and summaries.
//!
//! Invariant: every family and sample of the text is converted, with its labels as attributes.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum, Summary, SummaryDataPoint,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

/// Labels with their values.
type SampleLabels = Vec<(String, String)>;

/// A family of samples: name after the family's (`_bucket`, `_sum`, `_count`), labels, value.
#[derive(Default)]
struct TextFamily {
    name: String,
    help: String,
    kind: String,
    samples: Vec<(String, SampleLabels, f64)>,
}

/// Parses the labels of a sample, without braces.
fn labels(mut text: &str) -> SampleLabels {
    let mut all = vec![];
    while let Some((name, rest)) = text.split_once("=\"") {
        let (mut value, mut end, mut escaped) = (String::new(), rest.len(), false);
        for (at, c) in rest.char_indices() {
            match c {
                'n' if escaped => value.push('\n'),
                c if escaped => value.push(c),
                '\\' => {
                    escaped = true;
                    continue;
                }
                '"' => {
                    end = at + 1;
                    break;
                }
                c => value.push(c),
            }
            escaped = false;
        }
        all.push((name.trim_start_matches(',').to_owned(), value));
        text = &rest[end..];
    }
    all
}

fn families(text: &str) -> Vec<TextFamily> {
    let mut all: Vec<TextFamily> = vec![];
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|l| l.split_once(' ')) {
            let (name, help) = (name.to_owned(), help.to_owned());
            all.push(TextFamily { name, help, ..TextFamily::default() });
        }
        let Some(family) = all.last_mut() else { continue };
        if let Some((_, kind)) = line.strip_prefix("# TYPE ").and_then(|l| l.split_once(' ')) {
            kind.clone_into(&mut family.kind);
        } else if let Some((series, value)) =
            line.rsplit_once(' ').filter(|_| !line.starts_with('#'))
        {
            let (name, of) = series.split_once('{').unwrap_or((series, ""));
            let suffix = name.strip_prefix(&family.name).unwrap_or_default().to_owned();
            let value = value.parse().unwrap_or(f64::NAN);
            let of = of.strip_suffix('}').unwrap_or_default();
            family.samples.push((suffix, labels(of), value));
        }
    }
    all
}

fn attributes(labels: &[(String, String)]) -> Vec<KeyValue> {
    labels.iter().map(|(name, value)| attribute(name, value)).collect()
}

fn attribute(name: &str, value: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(Value::StringValue(value.to_owned())) });
    KeyValue { key: name.to_owned(), value, ..KeyValue::default() }
}

/// Times of a point in nanoseconds since 1970: the start of its counter, and now.
#[derive(Clone, Copy)]
struct PointTimes {
    start: u64,
    now: u64,
}

/// The end of a sample's name, its bound or quantile, and its value.
type GroupedSample<'f> = (&'f str, Option<f64>, f64);
/// Samples with the same labels.
type SampleGroup<'f> = (SampleLabels, Vec<GroupedSample<'f>>);

/// Groups the samples of a histogram or summary by their labels other than `by`.
fn grouped<'f>(family: &'f TextFamily, by: &str) -> BTreeMap<SampleLabels, Vec<GroupedSample<'f>>> {
    let mut groups: BTreeMap<SampleLabels, Vec<_>> = BTreeMap::new();
    for (suffix, labels, value) in &family.samples {
        let (own, rest): (SampleLabels, SampleLabels) =
            labels.iter().cloned().partition(|(name, _)| name == by);
        let at = own.first().and_then(|(_, text)| text.replace("+Inf", "inf").parse().ok());
        groups.entry(rest).or_default().push((&**suffix, at, *value));
    }
    groups
}

fn find(samples: &[GroupedSample<'_>], suffix: &str) -> f64 {
    samples.iter().find(|(s, ..)| *s == suffix).map_or(0.0, |(.., value)| *value)
}

fn histogram(family: &TextFamily, times: PointTimes) -> Data {
    let point = |(labels, samples): SampleGroup<'_>| {
        let buckets = samples.iter().filter(|(suffix, ..)| *suffix == "_bucket");
        let (mut bounds, mut counts, mut below) = (vec![], vec![], 0.0);
        for (_, bound, cumulative) in buckets {
            bounds.extend(bound.filter(|b| b.is_finite()));
            counts.push((cumulative - below) as u64);
            below = *cumulative;
        }
        HistogramDataPoint {
            attributes: attributes(&labels),
            start_time_unix_nano: times.start,
            time_unix_nano: times.now,
            count: find(&samples, "_count") as u64,
            sum: Some(find(&samples, "_sum")),
            bucket_counts: counts,
            explicit_bounds: bounds,
            ..HistogramDataPoint::default()
        }
    };
    Data::Histogram(Histogram {
        data_points: grouped(family, "le").into_iter().map(point).collect(),
        aggregation_temporality: AggregationTemporality::Cumulative.into(),
    })
}

fn summary(family: &TextFamily, times: PointTimes) -> Data {
    let point = |(labels, samples): SampleGroup<'_>| {
        let quantile = |(_, quantile, value): &GroupedSample<'_>| {
            Some(ValueAtQuantile { quantile: (*quantile)?, value: *value })
        };
        SummaryDataPoint {
            attributes: attributes(&labels),
            start_time_unix_nano: times.start,
            time_unix_nano: times.now,
            count: find(&samples, "_count") as u64,
            sum: find(&samples, "_sum"),
            quantile_values: samples.iter().filter_map(quantile).collect(),
            ..SummaryDataPoint::default()
        }
    };
    let data_points = grouped(family, "quantile").into_iter().map(point).collect();
    Data::Summary(Summary { data_points })
}

fn numbers(family: &TextFamily, times: PointTimes) -> Vec<NumberDataPoint> {
    let is_counter = family.kind == "counter";
    let point = |(_, labels, value): &(String, SampleLabels, f64)| NumberDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: if is_counter { times.start } else { 0 },
        time_unix_nano: times.now,
        value: Some(Number::AsDouble(*value)),
        ..NumberDataPoint::default()
    };
    family.samples.iter().map(point).collect()
}

/// Returns the unit of a metric, by the end of its name.
fn unit(name: &str) -> &'static str {
    let name = name.trim_end_matches("_total");
    match () {
        () if name.ends_with("seconds") => "s",
        () if name.ends_with("bytes") => "By",
        () => "",
    }
}

/// Returns the request that sends these metrics. Times are in nanoseconds since 1970.
pub fn metrics_request(text: &str, start: u64, now: u64) -> ExportMetricsServiceRequest {
    let times = PointTimes { start, now };
    let metric = |family: TextFamily| {
        let data = match &*family.kind {
            "histogram" => histogram(&family, times),
            "summary" => summary(&family, times),
            "counter" => Data::Sum(Sum {
                data_points: numbers(&family, times),
                aggregation_temporality: AggregationTemporality::Cumulative.into(),
                is_monotonic: true,
            }),
            _ => Data::Gauge(Gauge { data_points: numbers(&family, times) }),
        };
        Metric {
            unit: unit(&family.name).to_owned(),
            name: family.name,
            description: family.help,
            data: Some(data),
            ..Metric::default()
        }
    };
    let scope = InstrumentationScope {
        name: "firn".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let resource = Resource {
        attributes: vec![
            attribute("service.name", "firn"),
            attribute("service.version", env!("CARGO_PKG_VERSION")),
        ],
        ..Resource::default()
    };
    let metrics = families(text).into_iter().map(metric).collect();
    let scopes = ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() };
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(resource),
            scope_metrics: vec![scopes],
            ..ResourceMetrics::default()
        }],
    }
}

#[cfg(test)]
mod tests {
    use firn_kv::stats::PrometheusText;

    use super::*;

    #[test]
    fn every_kind_of_metric_is_converted() {
        let mut text = PrometheusText::default();
        text.counter("a_bytes_total", "A.", 7);
        text.family("b", "gauge", "B.");
        text.sample("b", &[("x", "q\"\\\n, y=\"")], 0.5);
        let mut latency = firn_kv::stats::Latency::default();
        (latency.timed, latency.sum) = (3, 2_000_000_000);
        (latency.p50, latency.p99) = (1_000_000_000, 1_000_000_000);
        latency.within = std::array::from_fn(|i| if i < 20 { 0 } else { 3 });
        text.family("c_seconds", "histogram", "C.");
        text.histogram("c_seconds", ("kind", "query"), &latency);
        text.family("d_seconds", "summary", "D.");
        text.summary("d_seconds", &[("table", "t")], &latency);
        let request = metrics_request(&text.into_string(), 1, 2);
        let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
        let names: Vec<_> = metrics.iter().map(|m| (&*m.name, &*m.unit)).collect();
        assert_eq!(
            names,
            [("a_bytes_total", "By"), ("b", ""), ("c_seconds", "s"), ("d_seconds", "s")]
        );
        let Some(Data::Sum(sum)) = &metrics[0].data else { panic!() };
        assert!(sum.is_monotonic && sum.data_points[0].value == Some(Number::AsDouble(7.0)));
        let Some(Data::Gauge(gauge)) = &metrics[1].data else { panic!() };
        assert_eq!(gauge.data_points[0].attributes, [attribute("x", "q\"\\\n, y=\"")]);
        let Some(Data::Histogram(h)) = &metrics[2].data else { panic!() };
        let point = &h.data_points[0];
        assert_eq!((point.count, point.sum), (3, Some(2.0)));
        assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
        assert_eq!(point.bucket_counts.iter().sum::<u64>(), 3);
        let Some(Data::Summary(s)) = &metrics[3].data else { panic!() };
        assert_eq!(s.data_points[0].quantile_values[1].value, 1.0);
        assert_eq!(s.data_points[0].attributes, [attribute("table", "t")]);
    }
}
