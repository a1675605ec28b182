//! Files that only stand for a trace: pointers of Git LFS and git-annex, pages that a server sent instead, archives.

/// The kind of a file that is no trace, as the end of a sentence, and a hint.
pub(crate) fn named(head: &[u8]) -> Option<(String, String)> {
    let text = head.trim_ascii_start();
    if text.starts_with(b"version https://git-lfs.github.com/spec/") {
        let size =
            text.split(|&byte| byte == b'\n').find_map(|line| line.trim_ascii().strip_prefix(b"size ".as_slice()));
        let size = size.map_or_else(String::new, |size| format!(" of {} bytes", size.escape_ascii()));
        return Some((
            format!("is a Git LFS pointer; the data{size} was not fetched"),
            "`git lfs pull` in the clone fetches it".into(),
        ));
    }
    if text.starts_with(b"/annex/objects/")
        || text.starts_with(b"../.git/annex/objects/")
        || text.starts_with(b".git/annex/objects/")
    {
        return Some((
            "is a git-annex pointer; the data was not fetched".into(),
            "`git annex get FILE` fetches it".into(),
        ));
    }
    if beginning_is(text, &[b"<!doctype html", b"<html", b"<head"]) {
        return Some((
            format!("is a web page{}, not a trace", title(text)),
            "the server sent a page instead of the file, such as an error or a sign-in: fetch it again, and look at what came".into(),
        ));
    }
    if beginning_is(text, &[b"<?xml"]) && contains(text, b"<Error>") {
        return Some(("is an error message of a server (XML), not a trace".into(), "fetch the file again".into()));
    }
    if text.starts_with(b"{") && contains(&text[..text.len().min(512)], b"\"message\"")
        || text.starts_with(b"404: Not Found")
    {
        return Some((
            "is a message of a server, not a trace".into(),
            "fetch the file again, and look at what came".into(),
        ));
    }
    let known: [(&[u8], &str, &str); 13] = [
        (b"PERFILE2", "is a recording of perf", "`perf script -i FILE` prints its events, which are read"),
        (
            b"\x17\x08Dtracing",
            "is a recording of trace-cmd",
            "`trace-cmd report FILE` prints its events, which are read",
        ),
        (b"\xff\xfe", UTF_16, "`iconv -f UTF-16 -t UTF-8 FILE` converts it"),
        (b"\xfe\xff", UTF_16, "`iconv -f UTF-16 -t UTF-8 FILE` converts it"),
        // A session key under a passphrase, or under a key of 2048 to 4096 bits.
        (b"\x8c\x0d\x04", "is encrypted with PGP", "`gpg -d FILE` decrypts it"),
        (b"\x85\x01\x0c\x03", "is encrypted with PGP", "`gpg -d FILE` decrypts it"),
        (b"\x85\x01\x8c\x03", "is encrypted with PGP", "`gpg -d FILE` decrypts it"),
        (b"\x85\x02\x0c\x03", "is encrypted with PGP", "`gpg -d FILE` decrypts it"),
        (b"-----BEGIN PGP MESSAGE-----", "is encrypted with PGP", "`gpg -d FILE` decrypts it"),
        (b"age-encryption.org/", "is encrypted with age", "`age -d FILE` decrypts it"),
        (b"-----BEGIN AGE ENCRYPTED FILE-----", "is encrypted with age", "`age -d FILE` decrypts it"),
        (b"Salted__", "is encrypted with openssl", "`openssl enc -d` decrypts it"),
        (b"\xd0\xcf\x11\xe0", "is an old Office document", "save it as CSV"),
    ];
    for (beginning, what, hint) in known {
        if head.starts_with(beginning) {
            return Some((what.into(), hint.into()));
        }
    }
    archive(head)
}

const UTF_16: &str = "is text in UTF-16, as PowerShell writes it";

/// The tool whose report of averages a file is, as the end of a sentence, and a hint.
pub(crate) fn report(head: &[u8]) -> Option<(&'static str, &'static str)> {
    const SERIES: &str = "`ioweir forecast` and `ioweir plan` read it as a series; `ioweir record` records requests";
    const WINDOWS: &str = "record the requests while diskspd runs, with `wpr` or `xperf`, and export them (`ioweir doc format etw-csv`); \
                           `ioweir forecast` reads the rates over time that diskspd writes with `-Rxml -D1000`";
    let text = head.trim_ascii_start();
    let has = |what: &[u8]| contains(head, what);
    let is_diskspd = beginning_is(text, &[b"<?xml", b"<Results>"]) && has(b"<TimeSpan>")
        || contains(&text[..text.len().min(512)], b"Command Line: ") && has(b"diskspd");
    let is_sysstat =
        has(b"%util") && (has(b"Device") || has(b" DEV ")) || has(b"avg-cpu:") || has(b" tps ") && has(b" rtps ");
    let is_dstat = text.starts_with(b"\"Dstat ") || text.starts_with(b"\"pcp-dstat ");
    match (is_diskspd, is_sysstat, is_dstat) {
        (true, ..) => Some(("is a result of diskspd, which holds totals and no requests", WINDOWS)),
        (_, true, _) => Some(("is a report of iostat or sar, which holds averages and no requests", SERIES)),
        (.., true) => Some(("is a recording of dstat, which holds averages and no requests", SERIES)),
        _ => None,
    }
}

/// A tar archive that holds no trace by itself: an archive of Open CAS telemetry is a format.
fn archive(head: &[u8]) -> Option<(String, String)> {
    let is_tar = head.get(257..262) == Some(b"ustar".as_slice());
    if is_tar && !contains(head, b"octf.") {
        let name = head[..100].split(|&byte| byte == 0).next().unwrap_or_default();
        return Some((
            format!("is a tar archive, whose first file is `{}`", name.escape_ascii()),
            "`tar -xf FILE` unpacks it".into(),
        ));
    }
    let is_empty = head.len() >= 1024 && head.iter().all(|&byte| byte == 0);
    is_empty.then(|| {
        (
            "holds nothing but zero bytes, as an empty tar archive or a download that failed".into(),
            "fetch it again".into(),
        )
    })
}

fn beginning_is(text: &[u8], beginnings: &[&[u8]]) -> bool {
    beginnings
        .iter()
        .any(|beginning| text.get(..beginning.len()).is_some_and(|found| found.eq_ignore_ascii_case(beginning)))
}

fn contains(text: &[u8], what: &[u8]) -> bool {
    memchr::memmem::find(text, what).is_some()
}

/// The title of a page, in quotes.
fn title(text: &[u8]) -> String {
    const SHOWN_BYTES: usize = 60;
    let lower = text.to_ascii_lowercase();
    let start = memchr::memmem::find(&lower, b"<title>").map(|place| place + b"<title>".len());
    let end = start.and_then(|start| memchr::memmem::find(&lower[start..], b"</title>").map(|length| start + length));
    match start.zip(end) {
        Some((start, end)) => {
            let title = text[start..end].trim_ascii();
            format!(" (`{}`)", title[..title.len().min(SHOWN_BYTES)].escape_ascii())
        }
        None => String::new(),
    }
}
