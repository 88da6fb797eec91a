//! The kind of device that a disk is, and the largest burst allowance that such a device may have.
//!
//! A disk is recognised by the model that the kernel reads from it, if that names its maker; otherwise by its behaviour. A disk
//! that behaves like a local drive may still be a provider's volume with an invisible limit, so its allowance is unknown.

use fathom_host::View;

use super::allowance_limit::{AZURE_LIMIT, AllowanceLimit, EBS_LIMIT};
use super::classes::StorageClass;
use super::medium::is_on_own_bus;

/// A kind of device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceClass {
    /// Its name, as in "it is an EBS volume" or "it behaves like a network SSD volume".
    pub name: String,
    /// Its largest burst allowance.
    pub limit: AllowanceLimit,
}

/// A model with a known maker: the prefix of its name, its kind, and its limit for reads.
struct DeviceModel {
    begins: &'static str,
    name: &'static str,
    limit: AllowanceLimit,
}

/// The model names by which NVMe controllers of clouds identify themselves.
const MODELS: [DeviceModel; 6] = [
    DeviceModel { begins: "Amazon Elastic Block Store", name: "an EBS volume", limit: EBS_LIMIT },
    DeviceModel {
        begins: "Amazon EC2 NVMe Instance Storage",
        name: "an instance store of EC2",
        limit: AllowanceLimit::None,
    },
    DeviceModel { begins: "MSFT NVMe Accelerator", name: "a managed disk of Azure", limit: AZURE_LIMIT },
    DeviceModel {
        begins: "Microsoft NVMe Direct Disk",
        name: "a local disk of Azure",
        limit: AllowanceLimit::None,
    },
    DeviceModel {
        begins: "nvme_card-pd",
        name: "a persistent disk of Google Cloud",
        limit: AllowanceLimit::Unknown,
    },
    DeviceModel { begins: "nvme_card", name: "a local SSD of Google Cloud", limit: AllowanceLimit::None },
];

/// The class of the devices at the bottom of a stack, for reads or for a load that `writes`. `resembles` names the class by behaviour.
pub fn device_class(
    view: &View,
    leaves: &[String],
    writes: bool,
    resembles: Option<&StorageClass>,
) -> Option<DeviceClass> {
    let models: Vec<DeviceClass> = leaves.iter().filter_map(|leaf| by_model(view, leaf)).collect();
    // An array is as slow as its slowest device, which is known only if all are alike.
    let known = models.first().filter(|first| {
        models.len() == leaves.len() && models.iter().all(|model| model.limit == first.limit)
    });
    let by_behaviour =
        || resembles.map(|class| DeviceClass { name: class.name.to_owned(), limit: class.limit });
    let mut class = known.cloned().or_else(by_behaviour)?;
    // Each device of an array has a bucket of its own.
    if let AllowanceLimit::Bucket { requests, .. } = &mut class.limit {
        *requests *= leaves.len().max(1) as f64;
    }
    // Flash has a write cache whose size makers do not publish.
    if writes && class.limit == AllowanceLimit::None {
        class.limit = AllowanceLimit::Unknown;
    }
    Some(class)
}

fn by_model(view: &View, leaf: &str) -> Option<DeviceClass> {
    let device = format!("sys/block/{leaf}/device");
    let model = view.value(&format!("{device}/model"))?;
    if let Some(known) = MODELS.iter().find(|known| model.starts_with(known.begins)) {
        return Some(DeviceClass { name: known.name.to_owned(), limit: known.limit });
    }
    is_on_own_bus(view, &device)
        .then(|| DeviceClass { name: format!("a local NVMe drive ({model})"), limit: AllowanceLimit::None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::nearest;

    /// A machine with a model for each device.
    fn view(flags: &str, devices: &[(&str, &str, &str)]) -> (tempfile::TempDir, View) {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: String, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/version".to_owned(), "");
        write("sys/class/block/none".to_owned(), "");
        write("proc/cpuinfo".to_owned(), &format!("processor\t: 0\nflags\t\t: fpu {flags}\n"));
        for (name, model, transport) in devices {
            write(format!("sys/block/{name}/device/model"), &format!("{model}   \n"));
            write(format!("sys/block/{name}/device/transport"), &format!("{transport}\n"));
        }
        let view = View::snapshot(folder.path()).unwrap();
        (folder, view)
    }

    fn limit(flags: &str, devices: &[(&str, &str, &str)], writes: bool) -> Option<AllowanceLimit> {
        let (_folder, view) = view(flags, devices);
        let leaves: Vec<String> = devices.iter().map(|(name, ..)| (*name).to_owned()).collect();
        device_class(&view, &leaves, writes, None).map(|class| class.limit)
    }

    #[test]
    fn a_model_tells_what_a_device_may_have() {
        let samsung = ("nvme0n1", "Samsung SSD 990 PRO 2TB", "pcie");
        assert_eq!(limit("", &[samsung], false), Some(AllowanceLimit::None));
        assert_eq!(limit("", &[samsung], true), Some(AllowanceLimit::Unknown), "its cache for writes");
        assert_eq!(limit("hypervisor", &[samsung], false), None, "who knows what is behind it");
        let ebs = ("nvme1n1", "Amazon Elastic Block Store", "pcie");
        assert_eq!(limit("hypervisor", &[ebs], false), Some(EBS_LIMIT));
        let two = [ebs, ("nvme2n1", ebs.1, ebs.2)];
        let twice = AllowanceLimit::Bucket { requests: 10.8e6, seconds: 1800.0 };
        assert_eq!(limit("hypervisor", &two, false), Some(twice), "a bucket each");
        let store = ("nvme3n1", "Amazon EC2 NVMe Instance Storage", "pcie");
        assert_eq!(limit("hypervisor", &[store], false), Some(AllowanceLimit::None));
        assert_eq!(limit("hypervisor", &[store, ebs], false), None, "not alike");
    }

    #[test]
    fn what_behaves_like_a_cloud_volume_may_have_its_bucket() {
        let (_folder, view) = view("hypervisor", &[]);
        let class =
            |iops, latency_ms| device_class(&view, &["vda".to_owned()], false, nearest(iops, latency_ms));
        assert_eq!(class(3_000.0, 0.7).unwrap().limit, EBS_LIMIT);
        assert_eq!(class(150_000.0, 0.05).unwrap().limit, AllowanceLimit::Unknown);
        assert_eq!(class(1.0, 900.0), None);
    }
}
