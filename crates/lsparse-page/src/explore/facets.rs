//! Shares of topics or clusters over time, or by any other column of metadata.

use lsparse::corpus::Metadata;

use crate::explore::pack::Pack;

/// Numbers that all facets of a page have together, and the parts that this leaves for each at least and at most.
const NUMBERS_IN_ALL: usize = 400_000;
const LEAST_PARTS: usize = 8;
const MOST_PARTS: usize = 60;

/// Parts of a column that is no time: the most frequent values, and the others as one.
const MOST_VALUES: usize = 20;

/// Columns that are shown at most.
const MOST_FACETS: usize = 12;

/// Shares by one column of metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct Facet {
    /// The column.
    pub name: String,
    /// Whether its values are dates or numbers, which have an order.
    pub is_time: bool,
    /// What the parts are called.
    pub labels: Vec<String>,
    /// Where ordered parts lie.
    pub places: Vec<f64>,
    /// Documents or rows of each part.
    pub documents: Vec<u32>,
    /// K x parts: the share of each topic in each part, by words or rows; NaN where a part has none.
    pub shares: Vec<f32>,
    /// Of a time, for each topic (b - a) / (b + a) with its share a in the earlier half of documents and b in the later.
    pub trend: Vec<f32>,
}

/// One document: its number among all, its weight, and its topics.
pub type Weighed<'a> = (usize, f64, &'a [(u32, f64)]);

/// The facets of documents by every column of metadata that tells them apart.
pub fn facets(metadata: &Metadata, num_topics: usize, documents: &[Weighed<'_>]) -> Vec<Facet> {
    let columns = metadata.names.len().clamp(1, MOST_FACETS);
    let room = (NUMBERS_IN_ALL / (num_topics * columns).max(1)).clamp(LEAST_PARTS, MOST_PARTS);
    let columns = metadata.names.iter().zip(&metadata.values).take(MOST_FACETS);
    columns.filter_map(|(name, values)| facet(name, values, num_topics, documents, room)).collect()
}

fn facet(name: &str, values: &[String], num_topics: usize, documents: &[Weighed<'_>], room: usize) -> Option<Facet> {
    let own: Vec<&str> = documents.iter().map(|document| values.get(document.0).map_or("", String::as_str)).collect();
    let numbers: Vec<Option<f64>> = own.iter().map(|value| place_in_time(value)).collect();
    let counted = numbers.iter().flatten().count();
    // A word here and there among dates is a slip.
    let is_time = counted > 0 && counted * 20 >= own.iter().filter(|value| !value.is_empty()).count() * 19;
    let (labels, places, part) = if is_time { ordered(&numbers, &own, room) } else { frequent(&own, room) };
    if labels.len() < 2 {
        return None;
    }
    let parts = labels.len();
    let (mut sums, mut weights, mut count) = (vec![0.0f64; num_topics * parts], vec![0.0f64; parts], vec![0u32; parts]);
    for ((_, weight, shares), part) in documents.iter().zip(&part) {
        let Some(part) = *part else { continue };
        count[part] += 1;
        weights[part] += weight;
        shares.iter().for_each(|&(k, share)| sums[k as usize * parts + part] += weight * share);
    }
    let shares = sums.iter().enumerate().map(|(at, sum)| (sum / weights[at % parts]) as f32).collect();
    let trend = if is_time { trend(&numbers, documents, num_topics) } else { Vec::new() };
    Some(Facet { name: name.to_owned(), is_time, labels, places, documents: count, shares, trend })
}

/// What parts are called, where they lie if they are in order, and the part of each document.
type Parts = (Vec<String>, Vec<f64>, Vec<Option<usize>>);

/// Parts in order: a value each where they are few, else stretches of equal length.
fn ordered(numbers: &[Option<f64>], values: &[&str], room: usize) -> Parts {
    let mut distinct: Vec<f64> = numbers.iter().flatten().copied().collect();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    let (low, high) = (distinct[0], distinct[distinct.len() - 1]);
    let width = (high - low) / room as f64;
    let part_of = |number: f64| match distinct.len() <= room {
        true => distinct.partition_point(|&other| other < number),
        false => (((number - low) / width) as usize).min(room - 1),
    };
    let parts = distinct.len().min(room);
    let place = |part: usize| if distinct.len() <= room { distinct[part] } else { low + (part as f64 + 0.5) * width };
    // A part is called by the first value in it; stretches without documents are no parts of a line.
    let mut first: Vec<Option<(f64, &str)>> = vec![None; parts];
    for (value, number) in values.iter().zip(numbers) {
        let Some(number) = *number else { continue };
        let first = &mut first[part_of(number)];
        if first.is_none_or(|(least, _)| number < least) {
            *first = Some((number, value));
        }
    }
    let filled: Vec<usize> = (0..parts).filter(|&part| first[part].is_some()).collect();
    let labels = filled.iter().filter_map(|&part| first[part]).map(|(_, label)| label.to_owned()).collect();
    let of_document = |number: &Option<f64>| number.and_then(|number| filled.binary_search(&part_of(number)).ok());
    (labels, filled.iter().map(|&part| place(part)).collect(), numbers.iter().map(of_document).collect())
}

/// The most frequent values, and the others as one.
fn frequent(values: &[&str], room: usize) -> Parts {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    let mut sorted: Vec<&str> = values.iter().copied().filter(|value| !value.is_empty()).collect();
    sorted.sort_unstable();
    for run in sorted.chunk_by(|a, b| a == b) {
        counts.push((run[0], run.len()));
    }
    counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let kept = counts.len().min(MOST_VALUES.min(room.saturating_sub(1)));
    // Values that nobody shares are names, which tell nothing of a topic.
    if counts.first().is_none_or(|first| first.1 < 2) {
        return (Vec::new(), Vec::new(), Vec::new());
    }
    let mut labels: Vec<String> = counts[..kept].iter().map(|(value, _)| (*value).to_owned()).collect();
    if counts.len() > kept {
        labels.push(format!("({} others)", counts.len() - kept));
    }
    let part = |value: &&str| {
        (!value.is_empty()).then(|| counts[..kept].iter().position(|(other, _)| other == value).unwrap_or(kept))
    };
    (labels, Vec::new(), values.iter().map(part).collect())
}

/// Of each topic how its share in the later half of documents stands to that in the earlier half.
fn trend(numbers: &[Option<f64>], documents: &[Weighed<'_>], num_topics: usize) -> Vec<f32> {
    let mut sorted: Vec<f64> = numbers.iter().flatten().copied().collect();
    sorted.sort_by(f64::total_cmp);
    // What lies at the middle belongs to the earlier half, unless nothing is later.
    let mut middle = sorted[(sorted.len() - 1) / 2];
    if middle == sorted[sorted.len() - 1] {
        middle = middle.next_down();
    }
    let (mut sums, mut weights) = ([vec![0.0f64; num_topics], vec![0.0f64; num_topics]], [0.0f64; 2]);
    for ((_, weight, shares), number) in documents.iter().zip(numbers) {
        let Some(number) = number else { continue };
        let half = usize::from(*number > middle);
        weights[half] += weight;
        shares.iter().for_each(|&(k, share)| sums[half][k as usize] += weight * share);
    }
    (0..num_topics)
        .map(|k| {
            let (a, b) = (sums[0][k] / weights[0], sums[1][k] / weights[1]);
            ((b - a) / (b + a)) as f32
        })
        .collect()
}

/// A number or a date as a place on a line: 2020, 3.5, 2020-07, 2020-07-01, 2020-07-01T12:00:00; dates in years.
fn place_in_time(text: &str) -> Option<f64> {
    if let Ok(number) = text.parse::<f64>() {
        return Some(number).filter(|number| number.is_finite());
    }
    let (date, clock) = text.split_at(text.find(['T', ' ']).unwrap_or(text.len()));
    let mut fields = date.split(['-', '/']);
    let year: u32 = fields.next().filter(|year| year.len() == 4)?.parse().ok()?;
    let month: u32 = fields.next()?.parse().ok().filter(|month| (1..=12).contains(month))?;
    let day: u32 = match fields.next() {
        None => 1,
        Some(day) => day.parse().ok().filter(|day| (1..=31).contains(day))?,
    };
    if fields.next().is_some() {
        return None;
    }
    let mut times = clock.trim_start_matches(['T', ' ']).split(':').map(|part| part.parse::<f64>().unwrap_or(0.0));
    let (hour, minute) = (times.next().unwrap_or(0.0), times.next().unwrap_or(0.0));
    let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334][month as usize - 1];
    Some(f64::from(year) + (f64::from(before + day - 1) + (hour + minute / 60.0) / 24.0) / 366.0)
}

/// Facets as the page has them.
pub fn put_facets(pack: &mut Pack, facets: &[Facet]) {
    let about: Vec<_> = facets
        .iter()
        .map(|facet| serde_json::json!({ "name": facet.name, "is_time": facet.is_time, "labels": facet.labels }))
        .collect();
    pack.set("facets", about);
    for (at, facet) in facets.iter().enumerate() {
        pack.f32(&format!("facet_share_{at}"), &facet.shares);
        pack.whole(&format!("facet_documents_{at}"), &facet.documents);
        pack.f64(&format!("facet_place_{at}"), &facet.places);
        pack.f32(&format!("facet_trend_{at}"), &facet.trend);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_numbers_have_places_and_words_have_none() {
        let in_order =
            ["-3", "0.5", "1999", "2020-01", "2020-01-02", "2020-01-02T12:30:00", "2020/07/01", "2020-12-31", "2021"];
        let places: Vec<f64> = in_order.iter().map(|text| place_in_time(text).unwrap()).collect();
        assert!(places.is_sorted_by(|a, b| a < b), "{places:?}");
        for text in ["", "May", "2020-13", "20-01-01", "2020-01-01-01", "nan", "inf", "2020-01-32", "-"] {
            assert_eq!(place_in_time(text), None, "{text}");
        }
    }

    #[test]
    fn shares_are_those_of_plain_sums() {
        let shares = [vec![(0u32, 1.0)], vec![(0, 0.25), (1, 0.75)], vec![(1, 1.0)], vec![(1, 0.5), (0, 0.5)]];
        let weights = [10.0, 20.0, 30.0, 5.0];
        // Documents 0, 2, 3 and 5 of six.
        let documents: Vec<Weighed<'_>> =
            [0, 2, 3, 5].iter().zip(&weights).zip(&shares).map(|((&n, &w), s)| (n, w, s.as_slice())).collect();
        let metadata = Metadata {
            names: vec!["year".into(), "place".into(), "name".into(), "blank".into()],
            values: vec![
                ["2001", "", "2001", "2003", "", "2002"].map(String::from).to_vec(),
                ["a", "", "b", "a", "", ""].map(String::from).to_vec(),
                ["p", "q", "r", "s", "t", "u"].map(String::from).to_vec(),
                vec![String::new(); 6],
            ],
        };
        let found = facets(&metadata, 2, &documents);
        assert_eq!(found.iter().map(|facet| facet.name.as_str()).collect::<Vec<_>>(), ["year", "place"]);
        let year = &found[0];
        assert!(year.is_time);
        assert_eq!(year.labels, ["2001", "2002", "2003"]);
        assert_eq!(year.documents, [2, 1, 1]);
        assert_eq!(year.shares, [(10.0 + 5.0) / 30.0, 0.5, 0.0, 15.0 / 30.0, 0.5, 1.0]);
        // Earlier: 2001 alone; later: 2002 and 2003 with 5 and 30 words.
        let (a, b) = (0.5f64, 2.5 / 35.0);
        assert!((f64::from(year.trend[0]) - (b - a) / (b + a)).abs() < 1e-6);
        let place = &found[1];
        assert!(!place.is_time && place.trend.is_empty());
        assert_eq!((&place.labels[..], &place.documents[..]), (&["a".to_owned(), "b".to_owned()][..], &[2, 1][..]));
        assert_eq!(place.shares, [0.25, 0.25, 0.75, 0.75]);
    }

    #[test]
    fn many_values_become_stretches_or_others() {
        let share = [(0u32, 1.0)];
        let documents: Vec<Weighed<'_>> = (0..1000).map(|n| (n, 1.0, &share[..])).collect();
        let number = (0..1000).map(|n| n.to_string()).collect();
        let word = (0..1000).map(|n| format!("w{}", n % 30)).collect();
        let metadata = Metadata { names: vec!["n".into(), "w".into()], values: vec![number, word] };
        let found = facets(&metadata, 1, &documents);
        assert_eq!((found[0].labels.len(), found[0].documents.iter().sum::<u32>()), (MOST_PARTS, 1000));
        assert_eq!((found[1].labels.len(), found[1].labels[MOST_VALUES].as_str()), (MOST_VALUES + 1, "(10 others)"));
        assert_eq!(found[1].documents.iter().sum::<u32>(), 1000);
    }
}
