//! An invitation's link as a QR code, drawn here: no picture is loaded from anywhere.

use qrcode::{Color, EcLevel, QrCode};

/// The quiet zone that the standard asks for, in modules.
const QUIET: usize = 4;

/// One `<svg>` element with a `viewBox`, without script, style or reference. Dark modules are one path in
/// `currentColor`.
///
/// # Errors
/// Where the text is too long for a QR code.
pub(crate) fn svg(text: &str) -> Result<String, qrcode::types::QrError> {
    let code = QrCode::with_error_correction_level(text, EcLevel::M)?;
    let width = code.width();
    let dark = code.to_colors().into_iter().enumerate().filter(|(_, color)| *color == Color::Dark);
    let path: String =
        dark.map(|(n, _)| format!("M{} {}h1v1h-1z", n % width + QUIET, n / width + QUIET)).collect();
    let size = width + 2 * QUIET;
    Ok(format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}" shape-rendering="crispEdges"><path fill="currentColor" d="{path}"/></svg>"#
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_one_plain_element_with_its_three_corners() {
        let drawn = svg("teamlamp://join?server=http%3A%2F%2F127.0.0.1%3A8720&code=7K3QF-9XW2M").unwrap();
        assert!(drawn.starts_with("<svg ") && drawn.ends_with("</svg>") && drawn.matches('<').count() == 3);
        assert!(!drawn.contains("style") && !drawn.contains("script") && !drawn.contains("href"));
        // The outermost modules of the finder patterns: top left, top right, bottom left; never bottom right.
        let size: usize =
            drawn.split("viewBox=\"0 0 ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        let far = size - QUIET - 1;
        for (x, y) in [(QUIET, QUIET), (far, QUIET), (QUIET, far)] {
            assert!(drawn.contains(&format!("M{x} {y}h")), "{x} {y}");
        }
        assert!(svg(&"x".repeat(5_000)).is_err());
    }
}
