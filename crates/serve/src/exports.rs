//! The exports that clients can open, each with its place on a device, for the thread that accepts clients.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use ioweir_config::{format_bytes, shown};

use crate::backend::Shape;
use crate::buffer::ALIGNMENT_BYTES;
use crate::engine::Handle;
use crate::nbd;
use crate::spec::{Allowed, Class, Export, Identity, Spec};

/// The places of a device that exports show.
#[derive(Clone, Debug)]
pub struct Places {
    /// The length of the device, its parts and its blocks.
    pub shape: Shape,
    /// Whether the device is open: exports show nothing of one that is not.
    pub is_open: bool,
    /// The device's volumes by name, if it has a table of them.
    pub volumes: BTreeMap<String, Range<u64>>,
}

/// The exports of a server, by number.
#[derive(Clone, Debug)]
pub struct Exports {
    /// The exports, as clients see them.
    pub list: Arc<[nbd::Export]>,
    /// The numbers of exports that no client can open: they were removed, their volume does not exist, or their device is not open.
    pub absent: Vec<usize>,
}

impl Exports {
    /// The exports of a spec on devices with these places.
    ///
    /// # Errors
    /// If one does not lie within its device.
    pub fn of(spec: &Spec, places: &[Places]) -> Result<Self, String> {
        let described: Result<Vec<_>, _> = spec.export.iter().map(|export| describe(export, spec, places)).collect();
        let described = described?;
        let absent = described.iter().zip(&spec.export).enumerate();
        let absent = absent.filter(|(_, (its, export))| its.is_none() || export.is_removed);
        let absent = absent.map(|(number, _)| number).collect();
        let nothing = |export: &Export| shape_of(export, 0..0, &Shape::default());
        let list = described.into_iter().zip(&spec.export).map(|(its, export)| its.unwrap_or_else(|| nothing(export)));
        Ok(Self { list: list.collect(), absent })
    }
}

/// The facts about exports that the thread that accepts clients needs.
#[derive(Debug)]
pub struct Catalog {
    /// The exports, by number.
    pub exports: Exports,
    /// The engine of each export.
    pub engines: Vec<Handle>,
    /// The classes of the server, by number.
    pub classes: Vec<Class>,
    /// The clients that may open each export.
    allowed: Vec<Vec<Allowed>>,
}

impl Catalog {
    /// The catalog of a spec, whose devices have these engines.
    #[must_use]
    pub fn new(spec: &Spec, exports: Exports, devices: &[Handle]) -> Self {
        Self {
            exports,
            engines: spec.export.iter().filter_map(|export| devices.get(spec.device_of(export)).cloned()).collect(),
            classes: spec.classes(),
            allowed: spec.export.iter().map(|export| export.allow.clone()).collect(),
        }
    }

    /// The exports that a client cannot open. An export without a list is open to all.
    pub fn hidden_from(&self, client: &Identity) -> Vec<usize> {
        let is_refused = |its: &[Allowed]| !its.is_empty() && !its.iter().any(|allowed| allowed.includes(client));
        let is_hidden = |number: &usize| self.exports.absent.contains(number) || is_refused(&self.allowed[*number]);
        (0..self.allowed.len()).filter(is_hidden).collect()
    }
}

/// An export as clients see it, which must lie within its device, part or volume; `None` if its volume does not exist, or its
/// device is not open.
fn describe(export: &Export, spec: &Spec, places: &[Places]) -> Result<Option<nbd::Export>, String> {
    let number = spec.device_of(export);
    let (Some(device), Some(places)) = (spec.device.get(number), places.get(number)) else { return Ok(None) };
    if !places.is_open {
        return Ok(None);
    }
    let (what, name, whole) = match (export.part_of(device), &export.volume) {
        (Some(part), _) => ("part", export.part.as_ref(), places.shape.parts.get(part).cloned()),
        (None, Some(volume)) => ("volume", Some(volume), places.volumes.get(volume).cloned()),
        (None, None) => ("device", None, Some(0..places.shape.size_bytes)),
    };
    let Some(whole) = whole else { return Ok(None) };
    let whole_bytes = whole.end - whole.start;
    let offset_bytes = export.offset.map_or(0, |offset| offset.0);
    let rest = whole_bytes.saturating_sub(offset_bytes);
    let size_bytes = export.size.map_or(rest, |size| size.0);
    if size_bytes > rest || (rest == 0 && whole_bytes > 0) {
        return Err(format!(
            "export {}: ends past its {what}, {}, which has {}",
            shown(&export.name),
            shown(name.unwrap_or(&export.device)),
            format_bytes(whole_bytes)
        ));
    }
    let begin = whole.start + offset_bytes;
    let least = u64::from(places.shape.block_bytes_min);
    if !size_bytes.is_multiple_of(least) {
        let (name, device) = (shown(&export.name), shown(&export.device));
        return Err(format!("export {name}: is not of whole blocks of device {device}, which are of {least} bytes"));
    }
    Ok(Some(shape_of(export, begin..begin + size_bytes, &places.shape)))
}

fn shape_of(export: &Export, place: Range<u64>, shape: &Shape) -> nbd::Export {
    nbd::Export {
        name: export.name.clone(),
        description: export.description.clone(),
        offset_bytes: place.start,
        size_bytes: place.end - place.start,
        read_only: export.read_only,
        block_bytes_min: shape.block_bytes_min,
        block_bytes_preferred: ALIGNMENT_BYTES as u32,
        trims: shape.trims,
    }
}
