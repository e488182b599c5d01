//! A coding agent in a home: the stand-in process that writes what Claude Code and Codex write.

use crate::home::{Home, Running, built};
use crate::wait::until;

/// A running agent.
pub(crate) struct Agent {
    process: Running,
    said: usize,
}

impl Agent {
    /// Starts `claude` or `codex` in a project of a home.
    pub(crate) async fn start(home: &Home, program: &str, project: &str, session: &str) -> Self {
        let (bin, folder) = (home.path().join("bin"), home.path().join("code").join(project));
        std::fs::create_dir_all(&bin).expect("the home can be written");
        std::fs::create_dir_all(&folder).expect("the home can be written");
        let named = bin.join(program);
        if !named.exists() {
            std::fs::copy(built("agent-standin"), &named).expect("the stand-in is copied");
        }
        let mut command = home.command(&named);
        let process = Running::start(command.arg(home.path()).arg(&folder).arg(session).current_dir(&folder));
        let mut agent = Self { process, said: 0 };
        agent.heard().await;
        agent
    }

    async fn heard(&mut self) {
        let wanted = self.said + 1;
        until("the agent's ok", async || {
            let lines = self.process.lines();
            assert!(lines.iter().all(|line| line == "ok"), "{lines:?} {}", self.process.messages());
            lines.len() >= wanted
        })
        .await;
        self.said = wanted;
    }

    /// Does one thing, and returns once its files say so.
    pub(crate) async fn does(&mut self, what: &str) {
        self.process.tell(what).await;
        self.heard().await;
    }

    /// Ends it without a word (SIGKILL).
    pub(crate) async fn kill(self) {
        self.process.kill().await;
    }
}
