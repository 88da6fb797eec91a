//! One page in the browser: opens, queries, controls, captures and prints it, and keeps all that it logged or fetched.

use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fathom_errors::{Error, Kind, Result};
use serde_json::{Value, json};

use super::{Browser, CALL_TIMEOUT};

/// The paper of a printed page, in inches as in the protocol.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Width of the sheet.
    pub width_in: f64,
    pub height_in: f64,
    /// The margin on each side.
    pub margin_in: f64,
}

impl Paper {
    /// A4 with margins of 1 cm, as browsers have it.
    pub const A4: Paper = Paper { width_in: 8.27, height_in: 11.69, margin_in: 0.4 };
    /// US Letter with the same.
    pub const LETTER: Paper = Paper { width_in: 8.5, height_in: 11.0, margin_in: 0.4 };
}

/// A tab. It is closed on drop.
#[derive(Debug)]
pub struct Tab<'b> {
    browser: &'b mut Browser,
    context: String,
    session: String,
}

impl<'b> Tab<'b> {
    pub(super) fn open(browser: &'b mut Browser) -> Result<Tab<'b>> {
        let context =
            text(&browser.call(None, "Target.createBrowserContext", json!({}))?, "browserContextId")?;
        let wanted =
            json!({ "url": "about:blank", "browserContextId": context, "width": 1280, "height": 800 });
        let target = text(&browser.call(None, "Target.createTarget", wanted)?, "targetId")?;
        let attach = json!({ "targetId": target, "flatten": true });
        let session = text(&browser.call(None, "Target.attachToTarget", attach)?, "sessionId")?;
        let mut tab = Tab { browser, context, session };
        for domain in ["Page", "Runtime", "Log", "Network", "Audits"] {
            tab.call(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(tab)
    }

    /// Any method of the protocol, for this tab.
    ///
    /// # Errors
    /// When the browser refuses it, has ended, or takes too long.
    pub fn call(&mut self, method: &str, parameters: Value) -> Result<Value> {
        self.browser.call(Some(&self.session), method, parameters)
    }

    /// Opens a file and waits until the page with all that it needs is there.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn goto(&mut self, file: &Path) -> Result<()> {
        let url = format!("file://{}", file.display());
        let answer = self.call("Page.navigate", json!({ "url": url }))?;
        if let Some(error) = answer.get("errorText").and_then(Value::as_str) {
            return Err(Error::new(Kind::NotFound, format!("the browser cannot open {url}: {error}")));
        }
        self.browser.link.event(&self.session, "Page.loadEventFired", CALL_TIMEOUT)?;
        Ok(())
    }

    /// The value of a JavaScript expression; a promise is awaited. This also works while the page's own scripts are off.
    ///
    /// # Errors
    /// When it throws.
    pub fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let wanted = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", wanted)?;
        match answer.get("exceptionDetails") {
            None => Ok(answer["result"]["value"].clone()),
            Some(details) => Err(Error::new(Kind::Malformed, format!("{expression}: {details}"))),
        }
    }

    /// The page's log entries, exceptions, requests and refusals since the last call: the protocol's events, in order.
    pub fn events(&mut self) -> Vec<Value> {
        self.browser.link.events(&self.session)
    }

    /// Sets the window's size, in CSS pixels.
    ///
    /// # Errors
    /// When the browser refuses it.
    pub fn resize(&mut self, width: u32, height: u32) -> Result<()> {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", metrics).map(drop)
    }

    /// Sets a media type (`screen`, `print`) and the reader's scheme (`light`, `dark`).
    ///
    /// # Errors
    /// When the browser refuses it.
    pub fn media(&mut self, kind: &str, scheme: &str) -> Result<()> {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call("Emulation.setEmulatedMedia", json!({ "media": kind, "features": [feature] })).map(drop)
    }

    /// Presses and releases a key by its name (`Tab`, `ArrowRight`, `Enter`).
    ///
    /// # Errors
    /// When the browser refuses it.
    pub fn press(&mut self, key: &str) -> Result<()> {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "End" => 35,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowRight" => 39,
            "0" => 48,
            "+" => 187,
            "-" => 189,
            other => return Err(Error::new(Kind::Usage, format!("the driver knows no key {other}"))),
        };
        let typed = match key {
            "Enter" => "\r",
            "0" | "+" | "-" => key,
            _ => "",
        };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": if kind == "keyDown" { typed } else { "" },
            });
            self.call("Input.dispatchKeyEvent", event)?;
        }
        Ok(())
    }

    /// Saves the page's downloads in this folder from now on.
    ///
    /// # Errors
    /// When the browser refuses it.
    pub fn save_to(&mut self, folder: &Path) -> Result<()> {
        let how = json!({ "behavior": "allow", "browserContextId": self.context, "downloadPath": folder });
        self.browser.call(None, "Browser.setDownloadBehavior", how).map(drop)
    }

    /// A picture of the page in its whole length, as PNG.
    ///
    /// # Errors
    /// When the browser cannot take it.
    pub fn screenshot(&mut self) -> Result<Vec<u8>> {
        decoded(&self.whole_page()?)
    }

    /// The same as a `data:` address, for the browser to look at.
    ///
    /// # Errors
    /// When the browser cannot take it.
    pub fn screenshot_url(&mut self) -> Result<String> {
        Ok(format!("data:image/png;base64,{}", text(&self.whole_page()?, "data")?))
    }

    fn whole_page(&mut self) -> Result<Value> {
        self.call("Page.captureScreenshot", json!({ "format": "png", "captureBeyondViewport": true }))
    }

    /// The page as a PDF, printed without backgrounds.
    ///
    /// # Errors
    /// When the browser cannot print it.
    pub fn pdf(&mut self, paper: Paper) -> Result<Vec<u8>> {
        let margin = paper.margin_in;
        let answer = self.call(
            "Page.printToPDF",
            json!({
                "paperWidth": paper.width_in, "paperHeight": paper.height_in, "printBackground": false,
                "marginTop": margin, "marginBottom": margin, "marginLeft": margin, "marginRight": margin,
            }),
        )?;
        decoded(&answer)
    }

    /// Polls until an expression is true; returns false if it was not in time.
    ///
    /// # Errors
    /// When it throws.
    pub fn wait_until(&mut self, expression: &str) -> Result<bool> {
        for _ in 0..600 {
            if self.evaluate(expression)? == Value::Bool(true) {
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(false)
    }
}

impl Drop for Tab<'_> {
    fn drop(&mut self) {
        let context = json!({ "browserContextId": self.context });
        let _ = self.browser.call(None, "Target.disposeBrowserContext", context);
        let _ = self.browser.link.events(&self.session);
    }
}

fn text(answer: &Value, field: &str) -> Result<String> {
    let value = answer.get(field).and_then(Value::as_str);
    value.map(str::to_owned).ok_or_else(|| Error::new(Kind::Malformed, format!("no {field} in {answer}")))
}

fn decoded(answer: &Value) -> Result<Vec<u8>> {
    let bytes = STANDARD.decode(text(answer, "data")?);
    bytes.map_err(|e| Error::new(Kind::Malformed, "the browser sent no base64").because(e))
}
