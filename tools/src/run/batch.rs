//! Many cases, one JSON object a line, in one worker process.
//!
//! The worker reads a case, runs it and answers with a line; the parent passes lines through. When the worker dies, of
//! a crash in compiled code or of lack of memory, the parent reports that on the case's line and starts another
//! worker for the rest; so too when a case takes longer than it may.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::{RunCase, Settings, run_case};
use crate::error::ToolError;
use crate::module_file::SourceText;
use crate::outer_boundary;
use crate::progress;

/// Runs the cases of a file (`-` is standard input), each within the limit, giving `report` the answer of each; `worker`
/// starts a worker process. Gives the exit status: that of the worst case.
pub fn run_batch(
    path: &Path,
    limit: Option<Duration>,
    worker: impl Fn() -> Command,
    mut report: impl FnMut(&Value) -> Result<(), ToolError>,
) -> Result<u8, ToolError> {
    let source_text = SourceText::read(path)?;
    let numbered = source_text.text.lines().enumerate().map(|(position, line)| (position + 1, line));
    let lines: Vec<(usize, &str)> = numbered.filter(|(_, line)| !line.trim().is_empty()).collect();
    let bar = progress::bar(lines.len() as u64, "running");
    let mut process = None;
    let mut status = 0;
    for (number, line) in lines {
        let mut current = match process.take() {
            Some(process) => process,
            None => Worker::start(worker())?,
        };
        let mut answer = match current.ask(line, limit) {
            Answer::Given(answer) => {
                process = Some(current);
                answer
            }
            Answer::Late(limit) => {
                current.kill();
                let error = ToolError::TimeLimit(limit.as_secs_f64());
                failure(line, &error.render(), error.exit_status())
            }
            Answer::None => crash_report(line, current.end()),
        };
        answer["line"] = json!(number);
        let answer_status = answer["exit_status"].as_u64().and_then(|status| u8::try_from(status).ok());
        status = status.max(answer_status.unwrap_or(outer_boundary::BUG));
        bar.suspend(|| report(&answer))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(status)
}

/// The worker's side: answers every line of standard input.
pub fn serve(settings: &Settings) -> Result<u8, ToolError> {
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|source| ToolError::read(Path::new("-"), source))?;
        let report = outer_boundary::catch(|| {
            let case: RunCase = serde_json::from_str(&line)
                .map_err(|error| ToolError::Usage(format!("not a case of a batch: {}", text_of(&error))))?;
            run_case(&case, settings)
        });
        let answer = match report {
            Ok(report) => {
                let mut answer = report.json();
                answer["exit_status"] = json!(if report.agrees() { 0 } else { outer_boundary::DIFFERS });
                answer
            }
            Err(error) => failure(&line, &error.render(), error.exit_status()),
        };
        outer_boundary::print(format!("{answer}\n"))?;
    }
    Ok(0)
}

/// What is wrong with a line; its number is in the answer.
fn text_of(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column ", " at column ")
}

fn failure(line: &str, message: &str, exit_status: u8) -> Value {
    let module = serde_json::from_str::<Value>(line).ok().map(|case| case["module"].clone()).unwrap_or_default();
    json!({ "module": module, "status": "error", "error": message.trim_end(), "exit_status": exit_status })
}

fn crash_report(line: &str, status: Option<ExitStatus>) -> Value {
    let how = status.map(|status| status.to_string()).unwrap_or_else(|| "unknown status".into());
    let message = format!("error: internal error: the process ended while it ran this case ({how})");
    failure(line, &message, outer_boundary::BUG)
}

struct Worker {
    process: Child,
    requests: ChildStdin,
    /// Lines of its output.
    answers: Receiver<String>,
}

enum Answer {
    Given(Value),
    /// It took longer than this limit.
    Late(Duration),
    /// The worker has died.
    None,
}

impl Worker {
    fn start(mut command: Command) -> Result<Self, ToolError> {
        let failed = |source| ToolError::Execution(format!("cannot start a worker process: {source}"));
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        match (process.stdin.take(), process.stdout.take()) {
            (Some(requests), Some(output)) => {
                let (sender, answers) = mpsc::channel();
                let lines = BufReader::new(output).lines().map_while(Result::ok);
                thread::spawn(move || lines.into_iter().try_for_each(|line| sender.send(line)));
                Ok(Worker { process, requests, answers })
            }
            _ => Err(ToolError::Bug("a worker process without pipes".into())),
        }
    }

    /// The answer to a line.
    fn ask(&mut self, line: &str, limit: Option<Duration>) -> Answer {
        if writeln!(self.requests, "{line}").is_err() {
            return Answer::None;
        }
        let answer = match limit {
            Some(limit) => match self.answers.recv_timeout(limit) {
                Err(RecvTimeoutError::Timeout) => return Answer::Late(limit),
                answer => answer.ok(),
            },
            None => self.answers.recv().ok(),
        };
        answer.and_then(|answer| serde_json::from_str(&answer).ok()).map_or(Answer::None, Answer::Given)
    }

    fn kill(mut self) {
        // A process that is gone cannot be killed, which is as good.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    fn end(mut self) -> Option<ExitStatus> {
        drop(self.requests);
        self.process.wait().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_kills_its_process_does_not_end_the_batch() {
        let worker = || {
            let mut shell = Command::new("sh");
            let script = r#"while read line; do
                case $line in *crash*) kill -SEGV $$ ;; *endless*) while :; do :; done ;; esac
                echo '{"status": "good", "exit_status": 0}'
            done"#;
            shell.args(["-c", script]);
            shell
        };
        let cases = std::env::temp_dir().join(format!("halo-batch-{}.jsonl", std::process::id()));
        let lines = ["a.hlo", "crash.hlo", "b.hlo", "endless.hlo", "c.hlo"]
            .map(|module| format!("{}\n", json!({ "module": module })));
        std::fs::write(&cases, lines.concat()).unwrap();
        let mut answers = Vec::new();
        let status = run_batch(&cases, Some(Duration::from_secs(2)), worker, |answer| {
            answers.push(answer.clone());
            Ok(())
        })
        .unwrap();
        std::fs::remove_file(&cases).unwrap();
        assert_eq!(status, outer_boundary::BUG);
        let statuses: Vec<&str> = answers.iter().filter_map(|answer| answer["status"].as_str()).collect();
        assert_eq!(statuses, ["good", "error", "good", "error", "good"]);
        assert_eq!(answers[3]["error"], "error: stopped after 2 seconds, the time limit");
        assert_eq!(answers[1]["module"], "crash.hlo");
        assert!(answers[1]["error"].as_str().unwrap().contains("signal: 11"), "{}", answers[1]);
    }
}
