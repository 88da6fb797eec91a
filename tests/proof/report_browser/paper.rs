//! That a page can be printed: no chart is cut by the end of a sheet, lines are there, what is folded on the screen is open, and the
//! data are not hundreds of sheets.
//!
//! The proof is in the PDF itself, read by Debian's poppler: before printing, the first and last words of each figure are made
//! words that stand nowhere else, and each must lie once within the margins of the same sheet.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use fathom_testkit::{Need, Paper, Scratch, Tab, assert, assert_eq, skip, test};

use super::{open, shared, spoil, walked, wrong};

/// Marks the corners of each figure by words of their own, and says how many each has.
const MARK: &str = "probe.all('figure').map((figure, at) => { \
    const marks = []; const mark = (letter) => { marks.push(letter); return letter + at + 'Q'; }; \
    const words = (node, letter) => { if (node) node.prepend(mark(letter) + ' '); }; \
    words(figure.querySelector('figcaption'), 'A'); words([...figure.children].findLast((one) => one.matches('p.small')), 'Z'); \
    const ticks = probe.all('.plot > svg text', figure); \
    if (ticks.length > 1) { ticks[0].textContent = mark('B'); ticks.at(-1).textContent = mark('Y'); } \
    const up = probe.all('.plot > svg text.y', figure); if (up.length > 1) up.at(-1).textContent = mark('T'); \
    return marks.join(''); })";

/// A word on a sheet, in points from its upper left corner.
#[derive(Clone, Debug)]
struct Word {
    sheet: usize,
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
    text: String,
}

/// The words of a PDF, and the size of its sheets; the test ends as skipped where poppler is not installed.
fn words_of(pdf: &Path) -> (Vec<Word>, usize, (f64, f64)) {
    let Ok(output) = Command::new("pdftotext").arg("-bbox").arg(pdf).arg("-").output() else {
        skip!(Need::Program, "no pdftotext (apt-get install poppler-utils)");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let number = |line: &str, name: &str| -> f64 {
        line.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
    };
    let (mut words, mut sheets, mut size) = (Vec::new(), 0, (0.0, 0.0));
    for line in text.lines().map(str::trim) {
        if line.starts_with("<page ") {
            sheets += 1;
            size = (number(line, "width"), number(line, "height"));
        } else if line.starts_with("<word ") {
            let text = line.split('>').nth(1).unwrap().split('<').next().unwrap().to_owned();
            let [left, top, right, bottom] = ["xMin", "yMin", "xMax", "yMax"].map(|name| number(line, name));
            words.push(Word { sheet: sheets, left, top, right, bottom, text });
        }
    }
    (words, sheets, size)
}

/// A tab's PDF, with the figures marked.
struct PrintedPage {
    file: std::path::PathBuf,
    marks: Vec<String>,
    words: Vec<Word>,
    sheets: usize,
    size: (f64, f64),
}

fn print(tab: &mut Tab<'_>, scratch: &Scratch, paper: Paper) -> PrintedPage {
    let marks = wrong(tab, MARK);
    let file = scratch.path().join("page.pdf");
    std::fs::write(&file, tab.pdf(paper).unwrap()).unwrap();
    let (words, sheets, size) = words_of(&file);
    PrintedPage { file, marks, words, sheets, size }
}

impl PrintedPage {
    /// The word that marks a corner of a figure.
    fn corner(&self, figure: usize, letter: char) -> Vec<&Word> {
        let mark = format!("{letter}{figure}Q");
        self.words.iter().filter(|word| word.text == mark).collect()
    }

    /// Figures that are cut: a corner is missing, or not on the sheet of the others.
    fn cut(&self) -> Vec<String> {
        let mut cut = Vec::new();
        for (figure, letters) in self.marks.iter().enumerate() {
            let mut sheets = BTreeMap::new();
            for letter in letters.chars() {
                match self.corner(figure, letter).as_slice() {
                    [word] => {
                        sheets.insert(letter, word.sheet);
                    }
                    others => cut.push(format!("figure {figure} has {} corners {letter}", others.len())),
                }
            }
            if sheets.values().any(|sheet| Some(sheet) != sheets.values().next()) {
                cut.push(format!("figure {figure} stands on sheets {sheets:?}"));
            }
        }
        cut
    }

    /// Words that are beyond the margins.
    fn beyond(&self, paper: Paper) -> Vec<&Word> {
        // A point for rounding.
        let margin = paper.margin_in * 72.0 - 1.0;
        let is_beyond = |word: &&Word| {
            word.left < margin
                || word.top < margin
                || word.right > self.size.0 - margin
                || word.bottom > self.size.1 - margin
        };
        self.words.iter().filter(is_beyond).collect()
    }

    /// Charts between whose lowest and highest label no colour is seen on the sheet.
    fn blank(&self) -> Vec<usize> {
        let is_blank = |(figure, letters): (usize, &String)| {
            if !letters.contains('T') {
                return None;
            }
            let (low, high) = (self.corner(figure, 'B')[0], self.corner(figure, 'T')[0]);
            // Charts stand in two columns, and reach to the end of theirs.
            let half = self.size.0 / 2.0;
            let right = if low.right < half { half - 10.0 } else { self.size.0 };
            let sheet = Sheet::new(&self.file, low.sheet);
            (sheet.coloured((low.right, high.top), (right, low.bottom)) < 3).then_some(figure)
        };
        self.marks.iter().enumerate().filter_map(is_blank).collect()
    }
}

/// A sheet as a picture: RGB, 144 pixels to an inch.
struct Sheet {
    width: usize,
    pixels: Vec<u8>,
}

impl Sheet {
    fn new(pdf: &Path, sheet: usize) -> Sheet {
        let number = sheet.to_string();
        let output = Command::new("pdftoppm")
            .args(["-r", "144", "-f", &number, "-l", &number])
            .arg(pdf)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // P6, width, height, depth, then three bytes a pixel.
        let bytes = output.stdout;
        let mut at = 0;
        let mut head = Vec::new();
        while head.len() < 4 {
            let end = at + bytes[at..].iter().position(u8::is_ascii_whitespace).unwrap();
            head.push(String::from_utf8(bytes[at..end].to_vec()).unwrap());
            at = end + 1;
        }
        assert_eq!((head[0].as_str(), head[3].as_str()), ("P6", "255"));
        Sheet { width: head[1].parse().unwrap(), pixels: bytes[at..].to_vec() }
    }

    /// Pixels in a box, given in points, that are not grey.
    fn coloured(&self, from: (f64, f64), to: (f64, f64)) -> usize {
        let place = |points: f64| (points * 2.0) as usize;
        let rows = place(from.1)..place(to.1);
        let is_coloured = |(x, y): &(usize, usize)| {
            let Some([red, green, blue]) =
                self.pixels.get(3 * (y * self.width + x)..).and_then(<[u8]>::first_chunk::<3>)
            else {
                return false;
            };
            red.max(green).max(blue) - red.min(green).min(blue) > 40
        };
        rows.flat_map(|y| (place(from.0)..place(to.0)).map(move |x| (x, y))).filter(is_coloured).count()
    }
}

#[test]
fn no_figure_is_cut_and_what_is_folded_is_open() {
    let shared = shared();
    let mut browser = shared.browser();
    let scratch = Scratch::new().unwrap();
    for page in &shared.pages {
        for paper in [Paper::A4, Paper::LETTER] {
            // Some are printed as they come, some after they were read.
            let mut tab = match paper.width_in > Paper::A4.width_in {
                true => open(&mut browser, &page.file, 1280),
                false => walked(&mut browser, &page.file, 1280),
            };
            let printed = print(&mut tab, &scratch, paper);
            println!("{}: {} figures on {} sheets", page.kind, printed.marks.len(), printed.sheets);
            assert_eq!(printed.cut(), Vec::<String>::new(), "{}", page.kind);
            assert!(printed.beyond(paper).is_empty(), "{}: {:?}", page.kind, printed.beyond(paper));
            assert_eq!(printed.blank(), Vec::<usize>::new(), "{}: no line on paper", page.kind);
            let tables = tab.evaluate("probe.all('figure.chart details').length").unwrap();
            let heads = printed.words.iter().filter(|word| word.text == "least").count();
            // Findings may have the word too.
            assert!(Some(heads as u64) >= tables.as_u64(), "{}: the figures of each chart", page.kind);
            // The head of a CSV; "per second, by ..." occurs in sentences.
            let is_head = |word: &Word| word.text.starts_with("second,") && word.text != "second,";
            assert!(!printed.words.iter().any(is_head), "{}: a CSV is on paper", page.kind);
        }
    }
}

#[test]
fn a_cut_or_blank_chart_on_paper_is_noticed() {
    let shared = shared();
    let mut browser = shared.browser();
    let scratch = Scratch::new().unwrap();
    let mut tab = open(&mut browser, shared.page("watched"), 1280);
    spoil(
        &mut tab,
        "figure { break-inside: auto !important } .grid { display: block !important } .plot { padding-top: 5in }",
    );
    let printed = print(&mut tab, &scratch, Paper::A4);
    assert!(!printed.cut().is_empty());
    drop(tab);
    let mut tab = open(&mut browser, shared.page("watched"), 1280);
    spoil(&mut tab, "path.line { stroke: transparent !important }");
    let printed = print(&mut tab, &scratch, Paper::A4);
    assert!(printed.blank().len() > 10);
    drop(tab);
    let mut tab = open(&mut browser, shared.page("watched"), 1280);
    spoil(&mut tab, "main { margin-left: -1in }");
    let printed = print(&mut tab, &scratch, Paper::A4);
    assert!(printed.sheets > 0 && (!printed.beyond(Paper::A4).is_empty() || !printed.cut().is_empty()));
}

#[test]
fn who_reads_in_the_dark_prints_in_the_light() {
    let shared = shared();
    let mut browser = shared.browser();
    let mut tab = walked(&mut browser, shared.page("watched"), 1280);
    tab.media("print", "dark").unwrap();
    let colours = "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.documentElement).getPropertyValue('--front')]";
    assert_eq!(tab.evaluate(colours).unwrap(), serde_json::json!(["rgb(255, 255, 255)", "#1c1f24"]));
    assert_eq!(wrong(&mut tab, "probe.dim()"), Vec::<String>::new());
}
