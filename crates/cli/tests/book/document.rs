//! Cuts a document into commands to run, files to write, and the rest.

/// The line before a block of commands that are run elsewhere, or nowhere, begins with this.
const NOT_RUN: &str = "<!-- not run: ";
/// The first line of a block of commands that are not run.
pub(crate) const NOT_RUN_FENCE: &str = "```sh";
/// The line before a block that is the content of a file begins with this.
const FILE: &str = "<!-- file: ";
/// The line before a block that is part of a file of the repository begins with this.
const COPY: &str = "<!-- from: ";

/// A document in order.
pub(crate) struct Document {
    pub(crate) blocks: Vec<Block>,
}

/// A part of a document.
pub(crate) enum Block {
    /// Lines that nothing is done with.
    Text(String),
    /// The content of a file that commands read.
    File { name: String, content: String, lines: String },
    /// A copy of a part of a file of the repository.
    Copy { name: String, content: String, lines: String },
    /// Commands with their output.
    Commands(Vec<Shown>),
}

/// A command as a document shows it.
pub(crate) struct Shown {
    /// The command line for the shell.
    pub(crate) line: String,
    /// The lines of the document.
    pub(crate) shown: String,
    /// The expected output.
    pub(crate) expected: String,
}

/// Why a block is not run, if the line before it says so.
pub(crate) fn reason(line: &str) -> Option<&str> {
    marked(line, NOT_RUN)
}

fn marked<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    line.strip_prefix(mark)?.strip_suffix(" -->")
}

impl Document {
    pub(crate) fn read(text: &str) -> Self {
        let mut blocks = Vec::new();
        let mut lines = text.lines();
        let mut before = "";
        while let Some(line) = lines.next() {
            if !line.starts_with("```") {
                blocks.push(Block::Text(format!("{line}\n")));
                before = line;
                continue;
            }
            let inside: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let content: String = inside.iter().map(|line| format!("{line}\n")).collect();
            let whole = format!("{line}\n{content}```\n");
            blocks.push(if line == "```console" {
                Block::Commands(commands(&inside))
            } else if let Some(name) = marked(before, FILE) {
                Block::File { name: name.into(), content, lines: whole }
            } else if let Some(name) = marked(before, COPY) {
                Block::Copy { name: name.into(), content, lines: whole }
            } else {
                Block::Text(whole)
            });
            before = "";
        }
        Self { blocks }
    }
}

fn commands(lines: &[&str]) -> Vec<Shown> {
    let mut commands: Vec<Shown> = Vec::new();
    let mut goes_on = false;
    for line in lines {
        let text = match line.strip_prefix("$ ") {
            Some(text) => {
                commands.push(Shown { line: String::new(), shown: String::new(), expected: String::new() });
                text
            }
            None if goes_on => line,
            None => {
                let command = commands.last_mut().expect("a block of commands begins with `$ `");
                command.expected += &format!("{line}\n");
                continue;
            }
        };
        let command = commands.last_mut().unwrap();
        command.shown += &format!("{line}\n");
        goes_on = text.ends_with('\\');
        command.line += text.trim_end_matches('\\').trim_start();
        command.line += if goes_on { "" } else { "\n" };
    }
    commands
}
