//! The kinds that the server has, and where a request points.

use http::Method;

use super::status::Status;

/// A kind of object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Resource {
    pub(super) plural: &'static str,
    pub(super) kind: &'static str,
    pub(super) group: &'static str,
    pub(super) is_namespaced: bool,
}

const fn core(plural: &'static str, kind: &'static str, is_namespaced: bool) -> Resource {
    Resource {
        plural,
        kind,
        group: "",
        is_namespaced,
    }
}

/// The kind of requests for certificates.
pub(super) const CERTIFICATE_REQUEST: &str = "CertificateSigningRequest";

pub(super) const LEASE: &str = "Lease";

pub(super) static NAMESPACES: Resource = core("namespaces", "Namespace", false);

static RESOURCES: [&Resource; 7] = [
    &NAMESPACES,
    &core("nodes", "Node", false),
    &core("services", "Service", true),
    &core("persistentvolumes", "PersistentVolume", false),
    &core("events", "Event", true),
    &Resource {
        plural: "leases",
        kind: LEASE,
        group: "coordination.k8s.io",
        is_namespaced: true,
    },
    &Resource {
        plural: "certificatesigningrequests",
        kind: CERTIFICATE_REQUEST,
        group: "certificates.k8s.io",
        is_namespaced: false,
    },
];

impl Resource {
    /// The subresource that writes the status alone.
    pub(super) fn of_status(&self) -> Option<&'static str> {
        match self.kind {
            "Node" | "Service" | "PersistentVolume" => Some("status"),
            CERTIFICATE_REQUEST => Some("approval"),
            _ => None,
        }
    }

    /// True if the answer to a deletion is the object.
    pub(super) fn returns_deleted(&self) -> bool {
        matches!(self.kind, "Service" | "PersistentVolume")
    }

    pub(super) fn api_version(&self) -> String {
        match self.group {
            "" => "v1".to_owned(),
            group => format!("{group}/v1"),
        }
    }

    /// Resource and group, as errors name them.
    pub(super) fn qualified(&self) -> String {
        with_group(self.plural, self.group)
    }

    /// The same by the kind, as errors of validation and of preconditions name it.
    pub(super) fn qualified_kind(&self) -> String {
        with_group(self.kind, self.group)
    }
}

fn with_group(name: &str, group: &str) -> String {
    match group {
        "" => name.to_owned(),
        group => format!("{name}.{group}"),
    }
}

/// An object, or all objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) resource: &'static Resource,
    /// Empty: all namespaces, or none.
    pub(super) namespace: String,
    /// Empty: the collection.
    pub(super) name: String,
    pub(super) is_status: bool,
}

impl Target {
    /// # Errors
    /// 404 for a path that is none of these kinds.
    pub(super) fn of(path: &str) -> Result<Self, Status> {
        let unknown = || {
            Status::without_details(
                404,
                "NotFound",
                "the server could not find the requested resource",
            )
        };
        let (group, rest) = match path.strip_prefix("/api/v1/") {
            Some(rest) => ("", rest),
            None => path
                .strip_prefix("/apis/")
                .and_then(|rest| rest.split_once("/v1/"))
                .ok_or_else(unknown)?,
        };
        let mut steps: Vec<&str> = rest.split('/').collect();
        let mut namespace = "";
        if let ["namespaces", of, _, ..] = &*steps {
            namespace = of;
            steps.drain(..2);
        }
        let (plural, name, subresource) = match &*steps {
            [plural] => (*plural, "", ""),
            [plural, name] => (*plural, *name, ""),
            [plural, name, subresource] => (*plural, *name, *subresource),
            _ => return Err(unknown()),
        };
        let resource = RESOURCES
            .iter()
            .find(|r| r.plural == plural && r.group == group);
        let resource = *resource.ok_or_else(unknown)?;
        let is_status = match subresource {
            "" => false,
            name if resource.of_status() == Some(name) => true,
            _ => return Err(unknown()),
        };
        let is_everywhere = resource.is_namespaced && name.is_empty();
        if resource.is_namespaced == namespace.is_empty() && !is_everywhere {
            return Err(unknown());
        }
        Ok(Self {
            resource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            is_status,
        })
    }

    /// The order of lists: `namespace/name`, or the name.
    pub(super) fn key(&self) -> String {
        match &*self.namespace {
            "" => self.name.clone(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// One object.
    Get,
    /// A page of a collection.
    List,
    /// Changes of a collection.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
}

impl Verb {
    /// # Errors
    /// 405 for a method that the path does not have.
    pub(super) fn of(method: &Method, target: &Target, is_watch: bool) -> Result<Self, Status> {
        let is_collection = target.name.is_empty();
        match *method {
            Method::GET if is_collection && is_watch => Ok(Self::Watch),
            Method::GET if is_collection => Ok(Self::List),
            Method::GET => Ok(Self::Get),
            Method::POST
                if is_collection
                    && target.resource.is_namespaced != target.namespace.is_empty() =>
            {
                Ok(Self::Create)
            }
            Method::PUT if !is_collection => Ok(Self::Update),
            Method::PATCH if !is_collection => Ok(Self::Patch),
            Method::DELETE if !is_collection && !target.is_status => Ok(Self::Delete),
            _ => Err(Status::without_details(
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            )),
        }
    }

    /// True if it may change an object.
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}
