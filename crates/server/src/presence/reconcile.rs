//! What maintenance does for presence: brings the rows to what this process holds and what the time is. The
//! timer and each change do that too; a moment that was missed is made up for here.

use crate::app::App;
use crate::error::ApiError;
use crate::store::presence as rows;
use teamlamp_wire::id::MachineId;

/// Settles machines that time has overtaken, and those whose link is held while their row says otherwise. It
/// costs what is up, not what is stored.
///
/// # Errors
/// What the store says.
pub async fn reconcile(app: &App) -> Result<(), ApiError> {
    super::look(app).await?;
    for machines in app.hub.held().chunks(super::BATCH) {
        let machines = machines.to_vec();
        let unlinked = app.store.read(move |db| {
            let mut unlinked: Vec<MachineId> = Vec::new();
            for machine in machines {
                if rows::known(db, &machine)?.is_some_and(|known| known.active && !known.linked) {
                    unlinked.push(machine);
                }
            }
            Ok(unlinked)
        });
        let unlinked = unlinked.await?;
        if unlinked.is_empty() {
            continue;
        }
        let (app, store) = (app.clone(), app.store.clone());
        let settled = store.write(move |tx| unlinked.iter().try_for_each(|id| super::settle(tx, &app, id)));
        settled.await?;
    }
    Ok(())
}
