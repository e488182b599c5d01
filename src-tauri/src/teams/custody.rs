//! The keyring's problems as the person meets them: what is wrong is asked about once, and only an
//! explicit choice puts secrets into a file.

use super::{Reach, Teams};
use crate::failure::{failure, of_act};
use teamlamp_connector::custody::Fault;
use teamlamp_connector::{Action, JoinFault, Place};
use teamlamp_wire::window::{CustodyQuestion, Failure};

impl Teams {
    /// Has the window ask what to do, where it was the keyring that stood in the way of joining.
    pub(super) fn ask_about_keyring(&self, fault: &JoinFault) {
        if let JoinFault::Custody(fault) = fault {
            self.ask(Some(fault));
        }
    }

    /// Puts secrets into a private file from now on, or into the keyring again.
    pub(crate) async fn set_custody(&self, file: bool) -> Result<(), Failure> {
        let place = if file { Place::File } else { Place::Keyring };
        match &*self.0.reach.read().await {
            Reach::Own(connector) => {
                connector.act(Action::SetCustody(place)).await.map_err(|fault| of_act(&fault))?;
            }
            // The choice is remembered in the home, where the other process reads it at its next start.
            Reach::Door(_) | Reach::None => {
                let chosen = self.0.install.custody.choose(place);
                chosen.map_err(|fault| failure("internal", fault.to_string()))?;
            }
        }
        self.try_keyring(false).await
    }

    /// Tries the keyring again, and has it ask its person where it is locked.
    pub(crate) async fn retry_custody(&self) -> Result<(), Failure> {
        self.try_keyring(true).await?;
        self.connect_now().await
    }

    async fn try_keyring(&self, may_prompt: bool) -> Result<(), Failure> {
        let custody = &self.0.install.custody;
        let mut proven = custody.prove().await;
        if may_prompt && proven == Err(Fault::Locked) {
            proven = match custody.unlock().await {
                Ok(()) => custody.prove().await,
                Err(fault) => Err(fault),
            };
        }
        match proven {
            Ok(_) => {
                self.ask(None);
                Ok(())
            }
            Err(fault) => {
                self.ask(Some(&fault));
                Err(failure("keyring", fault.to_string()))
            }
        }
    }

    fn ask(&self, about: Option<&Fault>) {
        let question = about.map(|fault| CustodyQuestion { why: fault.to_string() });
        self.0.desktop.change(|model| model.custody = question);
    }
}
