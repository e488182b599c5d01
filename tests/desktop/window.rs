//! The app's window through WebDriver: what a person reads, clicks and types, by names that a person or a
//! screen reader has. WebKit's own driver starts the app, as a person's desktop would.

use crate::computer::{Computer, app};
use crate::processes::{Running, below, kept, runs, signal};
use crate::wait::{LONGEST, eventually, until};
use fantoccini::elements::Element;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use std::fmt;
use std::net::TcpListener;
use std::sync::Mutex;
use teamlamp_clock::Clock;

/// An app whose window is driven. The app ends with it.
pub(crate) struct Window {
    client: Client,
    driver: Running,
}

impl Window {
    /// Starts the app on a computer.
    pub(crate) async fn open(computer: &Computer, arguments: &[&str]) -> Self {
        let port = free_port();
        let mut command = computer.command("WebKitWebDriver");
        command.arg(format!("--port={port}")).env("TAURI_WEBVIEW_AUTOMATION", "true");
        let driver = Running::start(&mut command, &computer.log_path());
        until("the driver listens", async || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()).await;
        let options = json!({"webkitgtk:browserOptions": {"binary": app(), "args": arguments}});
        let mut builder = ClientBuilder::new(HttpConnector::new());
        builder.capabilities(options.as_object().cloned().expect("an object"));
        let url = format!("http://127.0.0.1:{port}");
        let connected = Clock::system().within(LONGEST, builder.connect(&url)).await;
        let client = connected.expect("the app's window opens in time").expect("the app's window opens");
        Self { client, driver }
    }

    /// The computer shuts down: the app is asked to end, and does.
    pub(crate) async fn shut_down(self) {
        let app = self.app_pid();
        signal(app, "-TERM");
        until("a signal ends the app", async || !runs(app)).await;
    }

    /// The app's process.
    pub(crate) fn app_pid(&self) -> u32 {
        let apps = below(self.driver.pid(), "teamlamp-desktop");
        *apps.first().expect("the driver started the app")
    }

    /// Waits until the window says something, anywhere.
    pub(crate) async fn says(&self, text: &str) {
        let said = Said { wanted: text, last: Mutex::default() };
        until(&said, async || {
            let now = self.text().await;
            let found = now.contains(text);
            *said.last.lock().expect("no test panicked here") = now;
            found
        })
        .await;
    }

    /// Everything that the window says now.
    pub(crate) async fn text(&self) -> String {
        let body = self.client.execute("return document.body.innerText", vec![]).await;
        body.ok().and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// Clicks the button or link of a name.
    pub(crate) async fn click(&self, name: &str) {
        let quoted = literal(name);
        let path = format!(
            "//*[self::button or self::a][normalize-space(.)={quoted} or @aria-label={quoted} or starts-with(@aria-label, {quoted})]"
        );
        let button = eventually(format!("there is a button {name:?}"), async || {
            let button = self.find(&path).await?;
            button.is_enabled().await.unwrap_or(false).then_some(button)
        });
        button.await.click().await.expect("it can be clicked");
    }

    /// Writes into the field of a name, in place of what was there.
    pub(crate) async fn fill(&self, label: &str, text: &str) {
        let quoted = literal(label);
        let path = format!("//*[@id=//label[normalize-space(.)={quoted}]/@for] | //*[@aria-label={quoted}]");
        let field = eventually(format!("there is a field {label:?}"), async || self.find(&path).await).await;
        field.clear().await.expect("it can be cleared");
        field.send_keys(text).await.expect("it can be written");
    }

    /// Goes to a place by its name in the navigation.
    pub(crate) async fn go(&self, place: &str) {
        let path =
            format!("//nav//*[self::a or self::button][starts-with(normalize-space(.), {})]", literal(place));
        let link = eventually(format!("there is a place {place:?}"), async || self.find(&path).await);
        link.await.click().await.expect("it can be clicked");
    }

    /// The whole state that the app tells the window.
    pub(crate) async fn state(&self) -> Value {
        let script = "const done = arguments[0]; window.__TAURI_INTERNALS__.invoke('state').then(done, done)";
        self.client.execute_async(script, vec![]).await.expect("the window can ask the app")
    }

    /// Waits until the state has something.
    pub(crate) async fn state_has<T>(&self, what: &str, look: impl Fn(&Value) -> Option<T>) -> T {
        eventually(what, async || look(&self.state().await)).await
    }

    /// The text of the first element that a path finds.
    pub(crate) async fn text_of(&self, path: &str) -> String {
        let element = eventually(format!("there is {path}"), async || self.find(path).await).await;
        element.text().await.expect("it has a text")
    }

    /// Keeps a picture of the window, once what it says is drawn.
    pub(crate) async fn picture(&self, name: &str) {
        let drawn =
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))";
        self.client.execute_async(drawn, vec![]).await.expect("the window draws");
        let png = self.client.screenshot().await.expect("the window can be pictured");
        std::fs::write(kept("desktop-screenshots").join(format!("{name}.png")), png)
            .expect("target can be written");
    }

    async fn find(&self, path: &str) -> Option<Element> {
        let all = self.client.find_all(Locator::XPath(path)).await.ok()?;
        for element in all {
            if element.is_displayed().await.unwrap_or(false) {
                return Some(element);
            }
        }
        None
    }
}

/// The driver leaves its app running when it is killed.
impl Drop for Window {
    fn drop(&mut self) {
        for app in below(self.driver.pid(), "teamlamp-desktop") {
            signal(app, "-KILL");
        }
    }
}

/// What is waited for, and what is read instead, for a test that fails.
struct Said<'a> {
    wanted: &'a str,
    last: Mutex<String>,
}

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.last.lock().expect("no test panicked here");
        write!(f, "the window says {:?}; it says {last:?}", self.wanted)
    }
}

/// A text as a literal of an XPath.
fn literal(text: &str) -> String {
    assert!(!text.contains('"'), "no name has a quote");
    format!("\"{text}\"")
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    listener.local_addr().expect("it is bound").port()
}
