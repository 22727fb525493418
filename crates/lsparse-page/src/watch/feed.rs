//! The lines of traces that a page shows: pushed by whoever has them, asked for by pages.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lsparse::Result;
use lsparse::training::observe::Observer;
use lsparse::training::trace::{Beginning, Ending, Line, StepInfo};
use serde_json::{Value, json};

/// Steps of a trace that are kept: a chart has no more places, and a page is to open at once.
const MOST_STEPS: usize = 8_000;

/// The lines of one trace.
struct Series {
    name: String,
    lines: Vec<Arc<str>>,
    /// How often lines that pages have were taken back: where it has changed a page begins again.
    generation: u64,
    /// One step in so many is kept, besides those that end a lap or were scored.
    every: u64,
    /// Steps seen.
    steps: u64,
    /// Steps kept.
    kept: usize,
    /// Lines that were none of a trace.
    strange: usize,
}

impl Series {
    fn clear(&mut self) {
        self.lines.clear();
        self.generation += 1;
        (self.every, self.steps, self.kept, self.strange) = (1, 0, 0, 0);
    }

    fn push(&mut self, line: &Line, text: &str) {
        if let Line::Step(info) = line {
            self.steps += 1;
            let tells = info.ends_lap || info.heldout.is_some() || self.steps == 1;
            if !tells && !self.steps.is_multiple_of(self.every) {
                return;
            }
            self.kept += 1;
        }
        self.lines.push(text.into());
        if self.kept > MOST_STEPS {
            self.thin_out();
        }
    }

    /// Keep every other step; beginnings and ends stay.
    fn thin_out(&mut self) {
        let mut steps = 0;
        self.lines.retain(|line| {
            let is_step = line.starts_with("{\"event\":\"step\"");
            steps += usize::from(is_step);
            !is_step || steps % 2 == 1
        });
        self.kept = steps.div_ceil(2);
        self.every *= 2;
        self.generation += 1;
    }
}

/// What pages are shown.
#[derive(Default)]
pub struct Feed {
    series: Mutex<Vec<Series>>,
    /// Asks training to stop, where that can be done from here.
    stop: Option<Box<dyn Fn() + Send + Sync>>,
    asked_to_stop: AtomicBool,
    /// Pages that were answered, and when the last one was.
    answers: Mutex<(u64, Option<Instant>)>,
}

impl Feed {
    /// A feed whose pages can ask training to stop.
    pub fn of_a_run(stop: impl Fn() + Send + Sync + 'static) -> Self {
        Feed { stop: Some(Box::new(stop)), ..Feed::default() }
    }

    fn series(&self) -> MutexGuard<'_, Vec<Series>> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another trace, under a name; gives its number.
    pub fn add(&self, name: &str) -> usize {
        let mut series = self.series();
        let (lines, generation) = (Vec::new(), 0);
        series.push(Series { name: name.into(), lines, generation, every: 1, steps: 0, kept: 0, strange: 0 });
        series.len() - 1
    }

    /// A line of a trace, as text; what is none is counted.
    pub fn push_text(&self, number: usize, text: &str) {
        let line = serde_json::from_str::<Line>(text);
        match (&mut self.series()[number], line) {
            (series, Ok(line)) => series.push(&line, text.trim()),
            (series, Err(_)) => series.strange += 1,
        }
    }

    /// A line of a trace.
    pub fn push(&self, number: usize, line: &Line) {
        // A line of numbers and names always has a text.
        let Ok(text) = serde_json::to_string(line) else { return };
        self.series()[number].push(line, &text);
    }

    /// What was pushed for this trace is void.
    pub fn clear(&self, number: usize) {
        self.series()[number].clear();
    }

    /// What pages ask for: the lines of each trace beyond those that a page has, which says so by "generation.count", one
    /// a trace. A page that has nothing, or something of before, gets everything.
    pub fn state(&self, has: &str) -> String {
        let mut has = has.split(',').map(|text| {
            let (generation, count) = text.split_once('.')?;
            Some((generation.parse::<u64>().ok()?, count.parse::<usize>().ok()?))
        });
        // Training waits for as long as this is held: what is new is only pointed at, and written out afterwards.
        let found: Vec<(Value, Vec<Arc<str>>)> = (self.series().iter())
            .map(|series| {
                let from = match has.next().flatten() {
                    Some((generation, count)) if generation == series.generation => count.min(series.lines.len()),
                    _ => 0,
                };
                let about = json!({
                    "name": series.name,
                    "generation": series.generation,
                    "from": from,
                    "strange": series.strange,
                    "every": series.every,
                });
                (about, series.lines[from..].to_vec())
            })
            .collect();
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        *answers = (answers.0 + 1, Some(Instant::now()));
        drop(answers);
        let asked_to_stop = self.asked_to_stop.load(Ordering::Acquire);
        // Lines are JSON already: thousands of them are only put one after the other.
        let length: usize = found.iter().flat_map(|(_, lines)| lines).map(|line| line.len() + 1).sum();
        let mut text = String::with_capacity(length + 4096);
        text.push_str("{\"traces\":[");
        for (at, (about, lines)) in found.iter().enumerate() {
            let about = about.to_string();
            text.push_str(if at > 0 { "," } else { "" });
            text.push_str(about.strip_suffix('}').unwrap_or(&about));
            text.push_str(",\"lines\":[");
            for (at, line) in lines.iter().enumerate() {
                text.push_str(if at > 0 { "," } else { "" });
                text.push_str(line);
            }
            text.push_str("]}");
        }
        text + &format!("],\"can_stop\":{},\"asked_to_stop\":{asked_to_stop}}}", self.stop.is_some())
    }

    /// A page asks training to stop; false where it cannot.
    pub(super) fn ask_to_stop(&self) -> bool {
        let Some(stop) = &self.stop else { return false };
        if !self.asked_to_stop.swap(true, Ordering::AcqRel) {
            stop();
        }
        true
    }

    /// Another training begins, which nobody has asked to stop.
    pub fn go_on(&self) {
        self.asked_to_stop.store(false, Ordering::Release);
    }

    /// Training has ended and the program is about to: a page that is open is to see the end first, which takes it a
    /// second. Nobody waits where none is open.
    pub fn let_pages_see_the_end(&self) {
        let answers = || *self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, last) = answers();
        let until = Instant::now() + Duration::from_millis(2500);
        while last.is_some_and(|last| last.elapsed() < Duration::from_secs(5)) && Instant::now() < until {
            if answers().0 > before {
                // What was answered is on its way.
                std::thread::sleep(Duration::from_millis(100));
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// An observer of a training in this process: what it is told goes to a feed.
pub struct Watched {
    feed: Arc<Feed>,
    number: usize,
}

impl Watched {
    /// A training under this name.
    pub fn new(feed: Arc<Feed>, name: &str) -> Self {
        let number = feed.add(name);
        Watched { feed, number }
    }
}

impl Observer for Watched {
    fn begin(&mut self, beginning: &Beginning) -> Result<()> {
        self.feed.push(self.number, &Line::Begin(beginning.clone()));
        Ok(())
    }

    fn end(&mut self, ending: &Ending) -> Result<()> {
        self.feed.push(self.number, &Line::End(ending.clone()));
        Ok(())
    }

    fn step(&mut self, info: &StepInfo) -> Result<()> {
        self.feed.push(self.number, &Line::Step(info.clone()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn step(n: u64, ends_lap: bool) -> String {
        format!(
            r#"{{"event":"step","run":0,"lap":{n}.0,"step":{n},"batch":0,"ends_lap":{ends_lap},"seconds":1.0,"cpu_seconds":1.0,"rows_per_second":1.0,"empty_clusters":0,"peak_memory_bytes":null}}"#
        )
    }

    fn state(feed: &Feed, has: &str) -> Value {
        serde_json::from_str(&feed.state(has)).unwrap()
    }

    #[test]
    fn a_page_gets_what_it_has_not() {
        let feed = Feed::default();
        let number = feed.add("<b>a</b>");
        assert_eq!(feed.add("b"), 1);
        for n in 1..=3 {
            feed.push_text(number, &step(n, false));
        }
        feed.push_text(number, "no line");
        let all = state(&feed, "");
        assert_eq!(all["traces"][0]["lines"].as_array().unwrap().len(), 3);
        assert_eq!((&all["traces"][0]["strange"], &all["traces"][0]["name"]), (&json!(1), &json!("<b>a</b>")));
        let rest = state(&feed, "0.2,0.0");
        assert_eq!((rest["traces"][0]["lines"].as_array().unwrap().len(), &rest["traces"][0]["from"]), (1, &json!(2)));
        feed.clear(number);
        feed.push_text(number, &step(1, false));
        let again = state(&feed, "0.2,0.0");
        assert_eq!(
            (again["traces"][0]["lines"].as_array().unwrap().len(), &again["traces"][0]["from"]),
            (1, &json!(0))
        );
        for nonsense in ["x", "1", "-1.2,7", "0.99999999999999999999", ",,,,"] {
            assert_eq!(state(&feed, nonsense)["traces"][0]["from"], json!(0));
        }
    }

    #[test]
    fn long_traces_are_thinned_out_and_keep_their_laps() {
        let feed = Feed::default();
        let number = feed.add("long");
        for n in 1..=100_000 {
            feed.push_text(number, &step(n, n % 1000 == 0));
        }
        let all = state(&feed, "");
        let lines = all["traces"][0]["lines"].as_array().unwrap();
        assert!(lines.len() <= MOST_STEPS && lines.len() > MOST_STEPS / 4, "{}", lines.len());
        assert_eq!(lines.last().unwrap()["step"], json!(100_000));
    }

    #[test]
    fn only_a_run_can_be_stopped() {
        static STOPS: AtomicUsize = AtomicUsize::new(0);
        let (file, run) = (Feed::default(), Feed::of_a_run(|| _ = STOPS.fetch_add(1, Ordering::SeqCst)));
        assert!(!file.ask_to_stop() && run.ask_to_stop() && run.ask_to_stop());
        assert_eq!(STOPS.load(Ordering::SeqCst), 1);
        assert!(state(&run, "")["asked_to_stop"] == json!(true) && state(&file, "")["can_stop"] == json!(false));
    }
}
