//! What the library says, in the words of Python: a setting is a parameter of an estimator or a function.

use std::collections::HashMap;

use lsparse::choice::Name;
use lsparse::error::call_settings;
use lsparse::settings::{Kind, Settings, TopicsConfig};
use lsparse::{Error, MixtureConfig, SequenceConfig};
use pyo3::prelude::*;
use serde_json::{Value, json};

/// The library's settings and the parameters that set them; a setting of both mixtures and topics may have two. Settings
/// that Python does not have are called as they are.
const PARAMETERS: &[(&str, &str)] = &[
    ("alpha", "weight_concentration_prior or doc_topic_prior or transmat_prior"),
    ("batches", "batch_size"),
    ("binarize", "binarize"),
    ("build-corpus", "lsparse.build_corpus"),
    ("burn-in", "burn_in"),
    ("checkpoint", "checkpoint"),
    ("clusters", "n_components"),
    ("cut", "cut"),
    ("decay", "learning_decay"),
    ("delay", "learning_offset"),
    ("device", "device"),
    ("doc-iterations", "max_doc_update_iter"),
    ("doc-tolerance", "mean_change_tol"),
    ("docs-per-batch", "batch_size"),
    ("early-stopping", "early_stopping"),
    ("estimate", "estimate"),
    ("find-k", "n_components"),
    ("from", "warm_start"),
    ("gamma", "weight_concentration_prior"),
    ("group-column", "lengths"),
    ("groups", "lengths"),
    ("heldout", "X_val"),
    ("init", "init_params"),
    ("init-lloyd", "init_params"),
    ("k-max", "n_components_max"),
    ("k-start", "n_components_start"),
    ("kappa", "mean_precision_prior"),
    ("lambda", "smoothing or topic_word_prior"),
    ("laps", "max_iter"),
    ("learn-alpha", "learn_doc_topic_prior"),
    ("leave-out", "leave_out"),
    ("likelihood", "covariance_type"),
    ("max-seconds", "max_seconds"),
    ("max-share", "max_df"),
    ("max-words", "max_features"),
    ("memo-memory", "memo_memory"),
    ("method", "method"),
    ("mh-steps", "mh_steps"),
    ("min-docs", "min_df"),
    ("min-length", "min_length"),
    ("missing", "missing"),
    ("nu", "degrees_of_freedom_prior"),
    ("overlap", "overlap"),
    ("penalty", "penalty"),
    ("phrases", "phrases"),
    ("population", "total_samples"),
    ("precision", "precision"),
    ("prior-scale", "prior_scale"),
    ("prior-shape", "prior_shape"),
    ("refresh", "refresh"),
    ("restarts", "restarts"),
    ("resume", "resume"),
    ("row-weights", "sample_weight"),
    ("rows-per-batch", "batch_size"),
    ("runs", "n_init"),
    ("samples", "samples"),
    ("schedule", "schedule"),
    ("search", "search"),
    ("seed", "random_state"),
    ("seed-weight", "seed_weight"),
    ("seed-words", "seed_words"),
    ("selection-function", "selection_function"),
    ("sparsity", "sparsity"),
    ("standardize", "standardize"),
    ("states", "n_components"),
    ("stickiness", "stickiness"),
    ("stem", "stem"),
    ("stop-words", "stop_words"),
    ("table-draws", "table_draws"),
    ("threshold", "threshold"),
    ("time-series", "lengths"),
    ("tolerance", "tol"),
    ("topic-cost", "topic_cost"),
    ("topics", "n_components"),
    ("trace", "trace"),
    ("trades", "trades"),
    ("variance-floor", "variance_floor"),
    ("vocab", "vocabulary"),
];

/// Settings that are on or off, which messages name where they are on.
const SWITCHES: [&str; 4] = ["from", "missing", "resume", "standardize"];

/// The library's families of Gaussians, as `covariance_type` has them.
const COVARIANCE_TYPES: [(&str, &str); 5] = [
    ("gauss", "full"),
    ("diag-gauss", "diag"),
    ("spherical-gauss", "spherical"),
    ("tied-gauss", "tied"),
    ("zero-mean-gauss", "zero-mean"),
];

/// An error as Python tells it.
pub fn of_error(error: &Error) -> String {
    let text = match error {
        Error::Config { setting, problem, remedy } => {
            format!("{}: {problem}; {remedy}", parameter_of(setting).unwrap_or(setting))
        }
        _ => error.to_string(),
    };
    call_settings(&text, call)
}

/// A remark on data and settings as Python tells it.
pub fn of_remark(text: &str) -> String {
    call_settings(text, call)
}

/// The library's settings and the parameters that set them; for the tests.
#[pyfunction]
pub fn parameters() -> HashMap<&'static str, &'static str> {
    PARAMETERS.iter().copied().collect()
}

/// All that is declared of the settings of mixtures, topics or sequences, by name, as JSON: what parameters of estimators
/// are made of. Texts call settings by their parameters.
#[pyfunction]
pub fn settings(kind: &str) -> String {
    let table = match kind {
        "topics" => TopicsConfig::table(),
        "sequence" => SequenceConfig::table(),
        _ => MixtureConfig::table(),
    };
    let in_code = |setting: &str, value: &str| call(setting, value).map(|called| format!("``{called}``"));
    let declared = table.iter().map(|setting| {
        let (kind, names): (_, &[Name]) = match setting.kind {
            Kind::Count => ("int", &[]),
            Kind::Number => ("float", &[]),
            Kind::Switch => ("bool", &[]),
            Kind::Names(names) => ("names", names),
            Kind::Text(_) => ("str", &[]),
        };
        let [above, least, below, most] = setting.bounds();
        let declared = json!({
            "about": call_settings(&setting.about, in_code),
            "kind": kind,
            "names": names,
            "optional": setting.optional,
            "default": setting.default,
            "otherwise": call_settings(&setting.default_text(), in_code),
            "above": above, "least": least, "below": below, "most": most,
        });
        (setting.name.to_owned(), declared)
    });
    Value::Object(declared.collect()).to_string()
}

fn parameter_of(setting: &str) -> Option<&'static str> {
    PARAMETERS.iter().find(|(name, _)| *name == setting).map(|(_, parameter)| *parameter)
}

/// A setting and what it is to be, as one writes it in a call: `schedule="memoized"`.
fn call(setting: &str, value: &str) -> Option<String> {
    let parameter = parameter_of(setting)?;
    if SWITCHES.contains(&setting) {
        return Some(format!("{parameter}=True"));
    }
    if value.is_empty() {
        return Some(parameter.to_owned());
    }
    let values: Option<Vec<String>> = value.split(" or ").map(|value| literal(setting, value)).collect();
    Some(format!("{parameter}={}", values?.join(" or ")))
}

/// A value as one writes it; none for families that are classes of their own.
fn literal(setting: &str, value: &str) -> Option<String> {
    let value = match setting {
        "likelihood" => COVARIANCE_TYPES.iter().find(|(family, _)| *family == value)?.1,
        _ => value,
    };
    Some(match value {
        "K" => "n_components".to_owned(),
        "on" => "True".to_owned(),
        "off" => "False".to_owned(),
        _ if value.parse::<f64>().is_ok() => value.to_owned(),
        _ => format!("{value:?}"),
    })
}
