//! What the window may ask for, by the names of `teamlamp_wire::window`: adapters of a few lines. Each
//! runs on the app's runtime, never on the window's thread.

use crate::failure::{failure, of_client, of_local};
use crate::qr;
use crate::shell::Shell;
use tauri::State;
use tauri::ipc::Channel;
use teamlamp_client::event::HistoryQuery;
use teamlamp_wire::invitation::CreateInvitation;
use teamlamp_wire::window::{
    Failure, HISTORY_MAX, HistoryAsk, HistoryPage, Invite, Invited, JoinAccept, JoinFrom, JoinPreview,
    Joined, OpenPlace, Patch, PauseFor, PendingJoin, SetCustody, ShowTeam, StartTeam, WindowState,
};

type Answer<T> = Result<T, Failure>;

/// Sends the window what changes from now on.
#[tauri::command]
pub(crate) async fn patches(shell: State<'_, Shell>, channel: Channel<Patch>) -> Answer<()> {
    shell.desktop.follow(channel);
    Ok(())
}

/// The whole state.
#[tauri::command]
pub(crate) async fn state(shell: State<'_, Shell>) -> Answer<WindowState> {
    Ok(shell.desktop.state())
}

/// Starts the server of this computer, makes a team there and enrolls this machine.
#[tauri::command]
pub(crate) async fn start_team(shell: State<'_, Shell>, request: StartTeam) -> Answer<Joined> {
    let origin = shell.local.start().await.map_err(|fault| of_local(&fault))?;
    let link = shell.local.owner_link().await.ok_or_else(|| Failure {
        code: "local_server".into(),
        message: format!("The server of this computer ({origin}) has a team already."),
        next: Some("Join it with an invitation of its owner.".into()),
    })?;
    let StartTeam { team_name, person, machine } = request;
    let invitation = JoinFrom::Link { link };
    shell.teams.join(JoinAccept { invitation, person, machine, team_name: Some(team_name) }).await
}

/// What an invitation is, as the server itself says it.
#[tauri::command]
pub(crate) async fn join_preview(shell: State<'_, Shell>, request: JoinFrom) -> Answer<JoinPreview> {
    shell.teams.preview(&request).await
}

/// Joins the team of an invitation, once the person confirmed it.
#[tauri::command]
pub(crate) async fn join_accept(shell: State<'_, Shell>, request: JoinAccept) -> Answer<Joined> {
    let used = match &request.invitation {
        JoinFrom::Link { link } => Some(PendingJoin { link: link.clone() }),
        JoinFrom::Code { .. } => None,
    };
    let joined = shell.teams.join(request).await?;
    // A link that came meanwhile still waits for its own answer.
    shell.desktop.change(|model| {
        if model.pending_join == used {
            model.pending_join = None;
        }
    });
    Ok(joined)
}

/// Forgets the link that waits for confirmation.
#[tauri::command]
pub(crate) async fn join_dismiss(shell: State<'_, Shell>) -> Answer<()> {
    shell.desktop.change(|model| model.pending_join = None);
    Ok(())
}

/// Makes an invitation to the shown team.
#[tauri::command]
pub(crate) async fn invite(shell: State<'_, Shell>, request: Invite) -> Answer<Invited> {
    let (team, client) = shell.teams.shown().await?;
    let origin = client.peer().to_owned();
    let wish = CreateInvitation {
        role: request.role,
        expires_in_seconds: Some(request.expires_in_seconds),
        max_uses: Some(request.max_uses),
        note: None,
    };
    let made = client.at("invite").invite(&team, &wish).await.map_err(|fault| of_client(&fault))?;
    let (Some(code), Some(link)) = (made.code, made.link) else {
        return Err(failure("unavailable", "The server's answer was lost on the way: try again."));
    };
    let qr_svg = qr::svg(&link).map_err(|_| failure("internal", "The link is too long for a QR code."))?;
    let only_this_computer = is_own_address(&origin);
    Ok(Invited { code, link, qr_svg, expires_at: made.invitation.expires_at, origin, only_this_computer })
}

/// Skips every wait; a server of this computer that did not start is tried again.
#[tauri::command]
pub(crate) async fn connect_now(shell: State<'_, Shell>) -> Answer<()> {
    if shell.desktop.read(|model| model.local_server.as_ref().is_some_and(|server| server.error.is_some())) {
        shell.local.start().await.map_err(|fault| of_local(&fault))?;
    }
    shell.teams.connect_now().await
}

/// Pauses reporting.
#[tauri::command]
pub(crate) async fn pause(shell: State<'_, Shell>, request: PauseFor) -> Answer<()> {
    shell.teams.pause(true, request.for_seconds).await
}

/// Reports again.
#[tauri::command]
pub(crate) async fn resume(shell: State<'_, Shell>) -> Answer<()> {
    shell.teams.pause(false, None).await
}

/// Older events of the shown team.
#[tauri::command]
pub(crate) async fn history(shell: State<'_, Shell>, request: HistoryAsk) -> Answer<HistoryPage> {
    let (team, client) = shell.teams.shown().await?;
    let limit = usize::try_from(request.limit).unwrap_or(HISTORY_MAX).clamp(1, HISTORY_MAX);
    let query = HistoryQuery {
        before: request.before,
        limit: Some(limit),
        text: request.text,
        ..HistoryQuery::default()
    };
    let page = client.at("history").history(&team, &query).await.map_err(|fault| of_client(&fault))?;
    let next_before = page.next_cursor.and_then(|cursor| cursor.parse().ok());
    Ok(HistoryPage { items: page.items, next_before })
}

/// Where secrets are kept from now on.
#[tauri::command]
pub(crate) async fn set_custody(shell: State<'_, Shell>, request: SetCustody) -> Answer<()> {
    shell.teams.set_custody(request.file).await
}

/// Tries the keyring again.
#[tauri::command]
pub(crate) async fn retry_custody(shell: State<'_, Shell>) -> Answer<()> {
    shell.teams.retry_custody().await
}

/// The person went to a place.
#[tauri::command]
pub(crate) async fn open_place(shell: State<'_, Shell>, request: OpenPlace) -> Answer<()> {
    shell.desktop.change(|model| model.place = request);
    Ok(())
}

/// Shows another of the connected teams.
#[tauri::command]
pub(crate) async fn show_team(shell: State<'_, Shell>, request: ShowTeam) -> Answer<()> {
    let known = shell.desktop.change(|model| model.show_team(&request.context));
    if known { Ok(()) } else { Err(failure("not_found", "This install is not in that team any more.")) }
}

/// Whether an origin is this computer's own, so that nobody elsewhere can reach it.
fn is_own_address(origin: &str) -> bool {
    origin.starts_with("http://") && !teamlamp_wire::invitation::is_in_clear(origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_this_computer_is_told_from_others() {
        for own in ["http://127.0.0.1:8720", "http://localhost:1", "http://[::1]:8720"] {
            assert!(is_own_address(own), "{own}");
        }
        for other in ["http://192.168.1.4:8720", "https://team.example"] {
            assert!(!is_own_address(other), "{other}");
        }
    }
}
