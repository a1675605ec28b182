//! Every form shows the content of a document, for any names.

use super::*;

const HOSTILE: &str = "</script></title><script>alert(1)</script>\"'`{{ 7*7 }}<!--&amp;|\u{1b}[2J";

/// A document with a block of every kind, named `name`.
fn every_block(name: &str) -> Document {
    let data = serde_json::json!({ "name": name, "runs": [{ "completion_seconds": 0.5 }] });
    let mut document = Document::new("ioweir test", name, &data).unwrap();
    document.headline = format!("{name} takes 12 % less time.");
    document.heading(format!("Section of {name}"));
    document.text(format!("{name}\nsecond line"));
    document.push(Block::Facts(vec![(name.into(), name.into())]));
    let columns = [
        Column::text(name),
        Column::number("completion", "s").better(Better::Lower),
        Column::count("seeks"),
        Column::bytes("moved"),
        Column::text("verdict").format(Format::Fitted),
    ];
    let mut table = Table::new(name, columns).caption(name);
    table.row([name.into(), 0.5.into(), 1_234_u64.into(), 4096_u64.into(), Cell::from("fails").fails_if(true)]);
    table.row(["other".into(), 1.25.into(), 0_u64.into(), Value::Absent.into(), "passes".into()]);
    document.push(table.clone());
    document.push(table.detail());
    let series = vec![Series::new(name, Mark::Line, vec![(0.0, 1.0), (1.0, 2.0)])];
    let chart = Chart { title: name.into(), across: Axis::new(name), upward: Axis::new(name), series };
    let parts = [(name.to_owned(), vec![1.0]), ("other".to_owned(), vec![2.0])];
    let rows = Chart::rows(name, [name.to_owned()], Axis::from_zero(name), parts);
    document.push(Figure::new(name, name, vec![rows]));
    document.push(Figure::new(name, name, vec![chart]).zoomable());
    document.records =
        records_of([serde_json::json!({ "trace": name, "read": { "requests": 7 }, "mean": 0.5 })], &["trace"]);
    let inputs = vec![TraceMeta { name: name.into(), format: name.into(), files: vec![(name.into(), name.into())] }];
    let origin = Origin { version: "0.1.0".into(), commit: name.into(), command: name.into() };
    document.provenance = Some(Provenance::new(&origin, inputs, vec![(name.into(), name.into())]));
    document
}

fn rendered(document: &Document, suffix: &str) -> String {
    String::from_utf8(Form::from_file_name(&format!("a.{suffix}")).unwrap().render(document).unwrap()).unwrap()
}

#[test]
fn a_form_is_known_by_its_suffix() {
    assert_eq!(Form::from_file_name("out/Report.HTML").map(|form| form.suffix), Some("html"));
    assert_eq!(Form::from_file_name("report.md").map(|form| form.suffix), Some("md"));
    assert!(Form::from_file_name("json").is_none() && Form::from_file_name("report.pdf").is_none());
}

#[test]
fn a_terminal_shows_tables_and_text() {
    insta::assert_snapshot!(every_block("sfq:window=4").to_terminal(false));
}

#[test]
fn markdown_shows_tables_and_text() {
    insta::assert_snapshot!(rendered(&every_block("sfq:window=4"), "md"));
}

#[test]
fn bold_type_changes_no_text() {
    let document = every_block("sfq");
    let bold = document.to_terminal(true);
    assert!(bold.contains("\u{1b}[1m"));
    assert_eq!(bold.replace("\u{1b}[1m", "").replace("\u{1b}[0m", ""), document.to_terminal(false));
}

#[test]
fn csv_writes_values_and_quotes_what_it_must() {
    assert_eq!(rendered(&every_block("a,\"b\"\nc"), "csv"), "trace,mean,read_requests\n\"a,\"\"b\"\"\nc\",0.5,7\n");
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_keeps_values_and_their_types() {
    use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
    let mut document = every_block("sfq");
    let row = |mean: Option<f64>, flag| serde_json::json!({ "name": "a", "count": 7, "mean": mean, "flag": flag });
    document.records = records_of([row(Some(0.5), true), row(None, false)], &["name"]);
    let bytes = Form::from_file_name("a.parquet").unwrap().render(&document).unwrap();
    assert_eq!(bytes, Form::from_file_name("a.parquet").unwrap().render(&document).unwrap());
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let rows: Vec<String> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
    assert_eq!(rows[0], "{name: \"a\", count: 7, flag: true, mean: 0.5}");
    assert_eq!(rows[1], "{name: \"a\", count: 7, flag: false, mean: null}");
}

#[test]
fn document_list_reads_as_written_at_once() {
    let one = every_block("one");
    let indented: Vec<String> = rendered(&one, "json").lines().map(|line| format!("  {line}")).collect();
    let indented = indented.join("\n");
    assert_eq!(json_list(&[one.clone(), one]), format!("[\n{indented},\n{indented}\n]\n"));
}

#[test]
fn control_characters_and_markup_stay_text() {
    let document = every_block(HOSTILE);
    assert!(!document.to_terminal(false).contains('\u{1b}'));
    let markdown = rendered(&document, "md");
    // The command is a block of code, in which nothing is markup.
    let text: Vec<&str> = markdown.lines().filter(|line| !line.starts_with("    ")).collect();
    assert!(!markdown.contains('\u{1b}') && !text.concat().contains("<script"), "{markdown}");
    let page = rendered(&document, "html");
    assert!(!page.contains("<script>alert") && !page.contains("<!--"));
    assert_eq!((page.matches("</script").count(), page.matches("</title").count()), (1, 1));
    assert!(page.contains("{{ 7*7 }}"));
    assert_well_formed(&page);
}

#[test]
fn a_page_fetches_nothing() {
    let page = rendered(&every_block("sfq"), "html");
    for reference in ["http:", "https:", "//", "src=", "@import", "url("] {
        let lines = page.lines().filter(|line| line.contains(reference));
        let foreign: Vec<_> = lines.filter(|line| !line.trim_start().starts_with("// ")).collect();
        assert!(foreign.is_empty(), "{reference}: {foreign:?}");
    }
}

#[test]
fn page_has_script_only_for_magnifying() {
    let mut document = every_block("sfq");
    assert_eq!(rendered(&document, "html").matches("<script>").count(), 1);
    document.blocks.retain(|block| !matches!(block, Block::Figure(figure) if figure.is_zoomable));
    let page = rendered(&document, "html");
    assert!(!page.contains("<script") && !page.contains("script-src"));
}

#[test]
fn a_page_reads_without_script_and_without_sight() {
    let page = rendered(&every_block("sfq"), "html");
    assert!(page.contains("<html lang=\"en\">") && page.contains("prefers-color-scheme: dark"));
    assert!(page.contains("@media print"));
    // The row of buttons is the only element that is hidden until the script runs.
    assert_eq!(page.matches(" hidden>").count(), page.matches("class=\"controls\"").count());
    for (index, _) in page.match_indices("<th ") {
        assert!(page[index..].starts_with("<th scope="), "{}", &page[index..index + 60]);
    }
    for (index, _) in page.match_indices("<svg ") {
        let end = index + page[index..].find('>').unwrap();
        assert!(page[index..end].contains("aria-hidden"));
    }
    assert_eq!(page.matches("<h1>").count(), 1);
}

#[test]
fn points_are_thinned_until_the_page_fits() {
    let mut document = every_block("sfq");
    let wave = |at: u64| (at as f64, (at * 7_919 % 65_521) as f64);
    for series in 0..40 {
        let points = (0..50_000).map(wave).collect();
        let series = vec![Series::new(format!("series {series}"), Mark::Hair, points)];
        let chart = Chart { title: "t".into(), across: Axis::new("s"), upward: Axis::new("track"), series };
        document.push(Figure::new("f", "", vec![chart]).zoomable());
    }
    let page = rendered(&document, "html");
    assert!(page.len() < HTML_BYTES_MAX, "{} bytes", page.len());
    assert!(page.contains("of 50,000 points are drawn"));
    assert_well_formed(&page);
    assert_eq!(page, rendered(&document, "html"));
}

#[test]
fn best_value_is_marked_unless_all_equal() {
    let mut table = Table::new("", [Column::digits("mean", 1).better(Better::Lower)]);
    for value in [2.0, 1.01, 1.0, 3.0] {
        table.row([value.into()]);
    }
    let best = |table: &Table| -> Vec<bool> {
        table.shown().rows.iter().map(|row| row[0].emphasis == Emphasis::Best).collect()
    };
    // Values with the same text are equally good.
    assert_eq!(best(&table), [false, true, true, false]);
    table.rows.truncate(1);
    table.row([1.99.into()]);
    assert_eq!(best(&table), [false, false]);
}

/// Checks that elements are closed in the right order, attributes are quoted, and no `<` stands alone.
pub(crate) fn assert_well_formed(page: &str) {
    const VOID: [&str; 4] = ["meta", "br", "wbr", "!DOCTYPE"];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let end = rest.find('>').expect("a tag ends");
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        assert!(name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '!'), "<{tag}>");
        assert_eq!(tag.matches('"').count() % 2, 0, "<{tag}>");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "</{name}> closes nothing");
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
            if name == "script" || name == "style" {
                rest = &rest[rest.find(&format!("</{name}>")).expect("raw text ends")..];
            }
        }
    }
    assert_eq!(open, Vec::<&str>::new());
}

#[test]
fn page_names_tables_and_shows_code() {
    let mut document = every_block("sfq");
    document.headline = "`ioweir doc` and <b>".into();
    document.text("one ` alone");
    let page = rendered(&document, "html");
    assert!(page.contains("<code>ioweir doc</code> and &lt;b&gt;") && page.contains("one ` alone"));
    assert_eq!(page.matches("<table><caption").count(), page.matches("<table>").count());
}

#[test]
fn nothing_has_no_sign() {
    let points = vec![(-0.003, -1e-9), (0.003, 1e-9)];
    let series = vec![Series::new("a", Mark::Line, points)];
    let chart = Chart { title: "a".into(), across: Axis::new("a"), upward: Axis::new("b"), series };
    let mut document = every_block("sfq");
    document.push(Figure::new("a", "", vec![chart]));
    assert!(!rendered(&document, "html").contains(">-0<"));
}
